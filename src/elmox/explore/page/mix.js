// The mix of the layers (equation 1 of the paper): gamma times the sum of s_j times layer j. The
// sliders set it for all views; "mix" is a choice next to the layers wherever one is chosen.
//
//     const mix = useMix(model.info.numLayers);
//     vectorsOf(sentence, choice, mix)        -> a vector per token; choice is "0", "1", ... or "mix"

import { html } from "./vendor/preact/standalone.js";
import { Choice } from "./components.js";
import { useParameter } from "./state.js";
import { combined, softmax } from "./vectors.js";

const RANGE = 5; // of the weights before the softmax

// {weights, gamma, shares, coefficients, setWeights, setGamma}
export function useMix(numLayers) {
  const even = Array.from({ length: numLayers }, () => 0);
  const [text, setText] = useParameter("mix", even.join(","));
  const [gammaText, setGammaText] = useParameter("gamma", "1");
  const parsed = text.split(",").map(Number);
  const isUsable = parsed.length === numLayers && parsed.every((weight) => Math.abs(weight) <= 100);
  const weights = isUsable ? parsed : even;
  const gamma = Number(gammaText) > 0 && Number(gammaText) <= 100 ? Number(gammaText) : 1;
  const shares = softmax(weights);
  return {
    weights,
    gamma,
    shares,
    coefficients: shares.map((share) => gamma * share),
    setWeights: (changed) => setText(changed.join(",")),
    setGamma: (changed) => setGammaText(String(changed)),
  };
}

export function vectorsOf(sentence, choice, mix) {
  if (choice !== "mix") return sentence.layers[Number(choice)];
  return sentence.tokens.map((_, t) =>
    combined(
      sentence.layers.map((layer) => layer[t]),
      mix.coefficients,
    ),
  );
}

// The choices of a view: every layer, and the mix.
export function layerChoices(numLayers) {
  return [...Array.from({ length: numLayers }, (_, layer) => String(layer)), "mix"];
}

export function layerName(choice) {
  if (choice === "mix") return "Mix";
  return choice === "0" ? "Layer 0, no context" : `Layer ${choice}`;
}

export function LayerChoice({ numLayers, value, onChange }) {
  const options = layerChoices(numLayers).map((choice) => ({ value: choice, label: layerName(choice) }));
  return html`<${Choice} label="Layer" options=${options} value=${value} onChange=${onChange} />`;
}

export function MixPanel({ mix }) {
  const percent = (share) => `${(100 * share).toFixed(0)}%`;
  const change = (layer, weight) => mix.setWeights(mix.weights.map((old, j) => (j === layer ? weight : old)));
  const isDefault = mix.gamma === 1 && mix.weights.every((weight) => weight === 0);
  return html`<details class="card mix" open=${!isDefault}>
    <summary>
      <span class="title">Layer mix</span>
      <span class="shares" aria-hidden="true">
        ${mix.shares.map((share, j) => html`<i class=${`layer-${j}`} style=${{ flexGrow: share }}></i>`)}
      </span>
      <span class="summary">${mix.shares.map(percent).join(" · ")}</span>
    </summary>
    <p>
      A task reads ELMo as one mix of its layers, whose weights it learns. Set them by hand: every
      view that shows the mix follows.
    </p>
    <div class="sliders">
      ${mix.weights.map(
        (weight, layer) => html`<label>
          <span>${layerName(String(layer))}</span>
          <input
            type="range"
            min=${-RANGE}
            max=${RANGE}
            step="0.1"
            value=${weight}
            aria-valuetext=${`${percent(mix.shares[layer])} of the mix`}
            onInput=${(event) => change(layer, Number(event.target.value))}
          />
          <output>${percent(mix.shares[layer])}</output>
        </label>`,
      )}
      <label>
        <span>Scale γ</span>
        <input
          type="range"
          min="0.1"
          max="3"
          step="0.1"
          value=${mix.gamma}
          onInput=${(event) => mix.setGamma(Number(event.target.value))}
        />
        <output>${mix.gamma.toFixed(1)}</output>
      </label>
    </div>
    <p class="hint">
      γ changes the length of the vectors, not their direction, so similarities stay as they are.
      <button type="button" class="link" onClick=${() => (mix.setWeights(mix.weights.map(() => 0)), mix.setGamma(1))}>
        Reset
      </button>
    </p>
  </details>`;
}
