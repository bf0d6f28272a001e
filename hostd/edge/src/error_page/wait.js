
(() => {
  'use strict';
  // Shows the steps of the event stream, and reloads the page when the app is ready.
  const list = document.getElementById('steps');
  if (!list || !window.EventSource) return;
  const section = document.getElementById('wait');
  if (section) section.hidden = false;
  const warm = document.body.dataset.wait === 'app';
  const url = '/.slipway/wake' + (warm ? '' : '?patient');
  const STEPS_MAX = 12, PAUSE_MIN_MS = 2000, PAUSE_MAX_MS = 30000, RELOADS_MAX = 4,
    RELOADS_MS = 20000, RELOAD_PAUSE_MS = 1000;
  let item = list.lastElementChild, word = '', since = performance.now(), pause = PAUSE_MIN_MS, source;

  const line = (text) => {
    const fresh = document.createElement('li'), span = document.createElement('span');
    fresh.className = 'now';
    span.textContent = text;
    fresh.append(span);
    list.append(fresh);
    while (list.children.length > STEPS_MAX) list.firstElementChild.remove();
    return fresh;
  };
  const step = (next) => {
    const span = item.querySelector('span');
    if (span.textContent === next.text) { word = next.word; return; }
    if (!warm || !word || word === next.word) { span.textContent = next.text; word = next.word; return; }
    const took = document.createElement('small');
    took.textContent = ((performance.now() - since) / 1000).toFixed(1) + ' s';
    item.className = 'done';
    item.append(took);
    item = line(next.text);
    word = next.word;
    since = performance.now();
  };
  const over = (text) => {
    source.close();
    item.className = 'over';
    item.querySelector('span').textContent = text;
  };
  // Reloads back off and then stop, whatever is wrong, so that a page cannot reload for ever.
  const reloads = () => {
    try {
      const now = Date.now(), key = 'slipway-reloads';
      const times = JSON.parse(sessionStorage.getItem(key) || '[]').filter((t) => now - t < RELOADS_MS);
      sessionStorage.setItem(key, JSON.stringify([...times, now].slice(-RELOADS_MAX)));
      return times.length;
    } catch { return 1; }
  };
  const reload = () => {
    const before = reloads();
    if (before >= RELOADS_MAX) { over('It comes and goes. Reload the page to try again.'); return; }
    source.close();
    setTimeout(() => location.reload(), before * RELOAD_PAUSE_MS);
  };
  const open = () => {
    source = new EventSource(url);
    const on = (name, then) => source.addEventListener(name, (event) => { pause = PAUSE_MIN_MS; then(event); });
    on('step', (event) => step(JSON.parse(event.data)));
    on('ready', reload);
    on('failed', reload);
    on('asleep', () => over('It went to sleep. Reload the page to wake it.'));
    // The browser reopens a stream that breaks, but not one that was refused.
    source.onerror = () => {
      if (source.readyState !== EventSource.CLOSED) return;
      setTimeout(open, pause);
      pause = Math.min(pause * 2, PAUSE_MAX_MS);
    };
  };
  open();
})();
