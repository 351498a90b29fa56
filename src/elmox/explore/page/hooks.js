// Small hooks that several components use.

import { useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact/standalone.js";

const DELAY = 30; // milliseconds without a change before a computation starts

// The result of an asynchronous computation: {value, error, isPending}. While a new one is computed,
// `value` is the last one, so the page does not flicker; `value` must therefore carry what it is of.
// `compute` gets a function that returns whether its result is still wanted.
export function useResult(compute, dependencies) {
  const [result, setResult] = useState({ value: null, error: null, isPending: true });
  useEffect(() => {
    let isCurrent = true;
    const finish = (changes) => isCurrent && setResult((old) => ({ ...old, isPending: false, ...changes }));
    setResult((old) => ({ ...old, isPending: true }));
    const timer = setTimeout(async () => {
      try {
        finish({ value: await compute(() => isCurrent), error: null });
      } catch (error) {
        finish({ value: null, error });
      }
    }, DELAY);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, dependencies);
  return result;
}

// The width of an element in pixels: [ref, width].
export function useWidth() {
  const ref = useRef(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const measure = () => setWidth(Math.floor(ref.current.clientWidth));
    const observer = new ResizeObserver(measure);
    observer.observe(ref.current);
    measure();
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}
