// What the page asks of the server.

import { $ } from "./dom.js";

// headers are those of every call: the key, if there is one.
function headers() {
  const h = { "Content-Type": "application/json" };
  if ($("key").value) h.Authorization = "Bearer " + $("key").value;
  return h;
}

// failure is the error of an answer with another status than 200.
async function failure(response) {
  let message = "the server answers " + response.status;
  try { message = (await response.json()).error.message; } catch { /* it is no JSON of the server's */ }
  return Object.assign(new Error(message), { status: response.status });
}

// get reads JSON.
export async function get(path) {
  const response = await fetch(path, { headers: headers() });
  if (!response.ok) throw await failure(response);
  return response.json();
}

// post sends JSON and yields the events of the answer, a stream of server-sent events.
export async function* post(path, body, signal) {
  const response = await fetch(path, { method: "POST", headers: headers(), body: JSON.stringify(body), signal });
  if (!response.ok) throw await failure(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the server broke the answer off");
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line === "data: [DONE]") return;
      if (!line.startsWith("data: ")) continue;
      const event = JSON.parse(line.slice(6));
      if (event.error) throw new Error(event.error.message);
      yield event;
    }
  }
}
