// The sign of the dev tools would be in pictures of the page.
export default { devIndicators: false }
