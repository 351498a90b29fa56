// Files of the model: downloaded once, then kept by the browser's Cache API.

const PREFIX = "elmox-";

// The bytes of a file. `digest` names the model's version: files of other versions are discarded.
export async function fetchFile(path, digest, report = () => {}, headers = {}) {
  const cache = await openCache(PREFIX + digest);
  const url = new URL(path, location.href).href;
  const stored = await cache?.match(url);
  if (stored) {
    const bytes = new Uint8Array(await stored.arrayBuffer());
    report(bytes.length);
    return bytes;
  }
  const response = await download(url, path, headers);
  const bytes = await collect(response, path, report);
  // The page works without its cache, for example when the disk is full.
  await cache?.put(url, new Response(bytes)).catch(() => {});
  return bytes;
}

async function download(url, path, headers) {
  let response;
  try {
    response = await fetch(url, { headers });
  } catch {
    throw new Error(`${path} could not be downloaded: the server does not answer.`);
  }
  if (!response.ok) throw new Error(`${path} could not be downloaded: ${response.status} ${response.statusText}.`);
  return response;
}

async function collect(response, path, report) {
  const parts = [];
  let length = 0;
  const reader = response.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      parts.push(value);
      length += value.length;
      report(value.length);
    }
  } catch {
    throw new Error(`${path} could not be downloaded: the connection ended after ${length} bytes.`);
  }
  const bytes = new Uint8Array(length);
  let position = 0;
  for (const part of parts) {
    bytes.set(part, position);
    position += part.length;
  }
  return bytes;
}

// Null where the browser has no cache: on addresses that are neither https nor this machine.
async function openCache(name) {
  if (typeof caches === "undefined") return null;
  try {
    for (const other of await caches.keys()) {
      if (other.startsWith(PREFIX) && other !== name) await caches.delete(other);
    }
    return await caches.open(name);
  } catch {
    return null;
  }
}
