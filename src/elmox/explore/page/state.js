// The state of the page, kept in the URL after the #, so that a link reproduces any view.
//
//     const [word, setWord] = useParameter("word", "present");
//
// A value equal to its default is left out of the URL. All values are strings.

import { useEffect, useState } from "./vendor/preact/standalone.js";

const listeners = new Set();

export function readState() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

// Change some parameters; null removes one. `push` adds an entry to the browser's history.
export function writeState(changes, { push = false } = {}) {
  const parameters = new URLSearchParams(location.hash.slice(1));
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) parameters.delete(name);
    else parameters.set(name, value);
  }
  const hash = parameters.size > 0 ? `#${parameters}` : location.pathname + location.search;
  if (push) history.pushState(null, "", hash);
  else history.replaceState(null, "", hash);
  announce();
}

// All parameters; the component is drawn again whenever one of them changes.
export function useAllParameters() {
  const [state, setState] = useState(readState());
  useEffect(() => {
    const update = () => setState(readState());
    listeners.add(update);
    update();
    return () => listeners.delete(update);
  }, []);
  return state;
}

// One parameter and a function that changes it.
export function useParameter(name, fallback) {
  const value = useAllParameters()[name] ?? fallback;
  return [value, (changed) => writeState({ [name]: changed === fallback ? null : changed })];
}

function announce() {
  for (const listener of listeners) listener();
}

addEventListener("hashchange", announce);
addEventListener("popstate", announce);
