// The page: loads the model, shows the view that the URL names.

import { html, render, useEffect, useErrorBoundary, useRef, useState } from "./vendor/preact/standalone.js";
import { ApiKeyMissing, setApiKey } from "./http.js";
import { MixPanel, useMix } from "./mix.js";
import { openModel } from "./model.js";
import { useParameter, writeState } from "./state.js";
import { VIEWS } from "./views/index.js";

function App() {
  const [model, setModel] = useState(null);
  const [error, setError] = useState(null);
  const [progress, setProgress] = useState(null);
  const load = () => {
    setError(null);
    openModel(setProgress).then(setModel, setError);
  };
  useEffect(load, []);
  const [id] = useParameter("view", VIEWS[0].id);
  const view = VIEWS.find((candidate) => candidate.id === id) ?? VIEWS[0];
  return html`
    <a class="skip" href="#" onClick=${focusMain}>Skip to the view</a>
    <header class="top">
      <h1>ELMo explorer</h1>
      <p class="subtitle">A vector for every word that depends on its whole sentence.</p>
      <${Navigation} current=${view} model=${model} />
    </header>
    <main id="view" tabindex="-1">
      <h2 class="view-title">${view.title}</h2>
      <p class="lead">${view.summary}</p>
      <${Progress} progress=${progress} />
      ${error && html`<${LoadingFailed} error=${error} retry=${load} />`}
      ${model && html`<${View} key=${view.id} view=${view} model=${model} />`}
    </main>
    <footer>${model && html`<${Origin} info=${model.info} />`}</footer>
  `;
}

function Navigation({ current, model }) {
  const bar = useRef(null);
  useEffect(() => {
    const tab = bar.current.querySelector("[aria-current]");
    bar.current.scrollLeft = tab.offsetLeft - (bar.current.clientWidth - tab.offsetWidth) / 2;
  }, [current]);
  return html`<nav aria-label="Views" ref=${bar}>
    ${VIEWS.map((view) => {
      const lacks = model && missing(view, model);
      return html`<button type="button" aria-current=${view === current ? "page" : null} disabled=${Boolean(lacks)} title=${lacks}
        onClick=${() => writeState({ view: view.id === VIEWS[0].id ? null : view.id }, { push: true })}>${view.title}</button>`;
    })}
  </nav>`;
}

// What a model lacks for a view, as a sentence; null if nothing.
function missing(view, model) {
  if (view.needs === "softmax" && !model.info.hasSoftmax) {
    return `This model has no softmax, so it cannot predict words: ${model.info.description}.`;
  }
  if (view.needs === "words" && !model.info.hasFrequentWords) return "There is no list of frequent words for this model.";
  return null;
}

function View({ view, model }) {
  const [error, reset] = useErrorBoundary();
  const mix = useMix(model.info.numLayers);
  const lacks = missing(view, model);
  if (lacks) return html`<p class="notice">${lacks}</p>`;
  if (error) {
    return html`<div class="notice error" role="alert">
      <p>This view has failed: ${error.message}</p>
      <button type="button" onClick=${reset}>Try again</button>
    </div>`;
  }
  return html`<div>
    ${!model.info.hasTokenizer && html`<p class="notice">This model's tokenizer runs only in Python: put spaces between all words and signs.</p>`}
    <${view.component} model=${model} mix=${mix} />
    ${view.usesMix !== false && html`<${MixPanel} mix=${mix} />`}
  </div>`;
}

function Progress({ progress }) {
  if (progress === null || progress.loaded >= progress.total) return null;
  const megabytes = (bytes) => (bytes / 1e6).toFixed(1);
  return html`<div class="loading" role="status">
    <label for="progress">Loading the model: ${megabytes(progress.loaded)} of ${megabytes(progress.total)} MB</label>
    <progress id="progress" max=${progress.total} value=${progress.loaded}></progress>
  </div>`;
}

function LoadingFailed({ error, retry }) {
  const [key, setKey] = useState("");
  const needsKey = error instanceof ApiKeyMissing;
  const submit = (event) => {
    event.preventDefault();
    if (needsKey) setApiKey(key);
    retry();
  };
  return html`<form class="notice error" role="alert" onSubmit=${submit}>
    <p>${error.message}</p>
    ${needsKey && html`<label>API key <input type="password" value=${key} onInput=${(event) => setKey(event.target.value)} /></label>`}
    <button type="submit">${needsKey ? "Use this key" : "Try again"}</button>
  </form>`;
}

function Origin({ info }) {
  const place = info.isLocal
    ? "It runs in this browser: nothing you type leaves your machine."
    : html`It runs on this server, which gets what you type. <a href="../docs">Endpoints</a>`;
  return html`<p>Model: ${info.description}, ${info.numLayers} layers of ${info.dim} numbers. ${place}</p>`;
}

function focusMain(event) {
  event.preventDefault();
  document.getElementById("view").focus();
}

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
