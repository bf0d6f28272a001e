//! A real Chromium without a window, driven by chromedriver in the words of the WebDriver standard.

mod driver;
mod page;

pub use driver::Browser;
