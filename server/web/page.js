"use strict";

const $ = id => document.getElementById(id);
const conversation = []; // {role, content}, as the API has them
let running = null; // the AbortController of the answer under way

// headers are those of every call: the key, if there is one.
function headers() {
  const h = { "Content-Type": "application/json" };
  if ($("key").value) h.Authorization = "Bearer " + $("key").value;
  return h;
}

// show adds a message to the page and returns its element.
function show(kind, text) {
  const e = document.createElement("div");
  e.className = "message " + kind;
  e.textContent = text;
  $("messages").append(e);
  e.scrollIntoView();
  return e;
}

// redraw shows the conversation anew.
function redraw() {
  $("messages").replaceChildren();
  for (const m of conversation) show(m.role, m.content);
  $("again").disabled = conversation.length === 0;
}

// events yields the data of a stream of server-sent events.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line === "data: [DONE]") return;
      if (line.startsWith("data: ")) yield JSON.parse(line.slice(6));
    }
  }
}

function body() {
  const b = { messages: conversation, stream: true, stream_options: { include_usage: true } };
  for (const name of ["temperature", "top_p", "top_k", "max_tokens", "seed"]) {
    if ($(name).value !== "") b[name] = Number($(name).value);
  }
  return JSON.stringify(b);
}

// answer asks for the next message and shows it as it comes.
async function answer() {
  const mine = running = new AbortController();
  $("send").disabled = $("again").disabled = true;
  $("stop").disabled = false;
  const reasoning = show("reasoning", "");
  const element = show("assistant", "");
  let began = 0;
  let text = "";
  try {
    const response = await fetch("v1/chat/completions", { method: "POST", headers: headers(), body: body(), signal: mine.signal });
    if (!response.ok) throw new Error((await response.json()).error.message);
    for await (const event of events(response)) {
      if (event.error) throw new Error(event.error.message);
      const delta = event.choices[0]?.delta ?? {};
      began ||= performance.now();
      text += delta.content ?? "";
      element.textContent = text;
      reasoning.textContent += delta.reasoning_content ?? "";
      if (event.usage) {
        const seconds = (performance.now() - began) / 1000;
        $("speed").textContent = `${(event.usage.completion_tokens / seconds).toFixed(1)} tokens/s, ${event.usage.prompt_tokens_details.cached_tokens} of ${event.usage.prompt_tokens} prompt tokens cached`;
      }
    }
  } catch (error) {
    if (error.name !== "AbortError") show("error", error.message);
  }
  if (!reasoning.textContent) reasoning.remove();
  if (text && !mine.cleared) conversation.push({ role: "assistant", content: text });
  else element.remove();
  running = null;
  $("send").disabled = $("again").disabled = false;
  $("stop").disabled = true;
  $("text").focus();
}

$("form").addEventListener("submit", event => {
  event.preventDefault();
  const text = $("text").value.trim();
  if (!text || running) return;
  $("text").value = "";
  conversation.push({ role: "user", content: text });
  show("user", text);
  answer();
});

$("text").addEventListener("keydown", event => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("form").requestSubmit();
  }
});

$("stop").addEventListener("click", () => running?.abort());

$("again").addEventListener("click", () => {
  if (conversation.at(-1)?.role === "assistant") conversation.pop();
  if (running || conversation.length === 0) return;
  redraw();
  answer();
});

$("clear").addEventListener("click", () => {
  if (running) running.cleared = true;
  running?.abort();
  conversation.length = 0;
  redraw();
});

// watch shows where the engine stands, once a second.
async function watch() {
  try {
    const response = await fetch("stats", { headers: headers() });
    if (!response.ok) throw new Error(response.status === 401 ? "needs the API key" : "cannot be read");
    const s = await response.json();
    const used = s.PagesUsed / s.Pages;
    const rows = {
      "Running": s.Running, "Waiting": s.Waiting, "Step": (s.StepTime / 1e6).toFixed(1) + " ms",
      "Tokens/s": Math.round(s.Rate), "Pages used": `${s.PagesUsed} of ${s.Pages}`, "Pages idle": s.PagesIdle,
      "Prefix found": s.Queried ? Math.round(100 * s.Found / s.Queried) + " %" : "-", "Preempted": s.Preemptions,
    };
    $("engine").replaceChildren(...Object.entries(rows).flatMap(([name, value]) => {
      const term = document.createElement("dt"), data = document.createElement("dd");
      term.textContent = name;
      data.textContent = value;
      return [term, data];
    }));
    $("pages").value = used;
    $("model").textContent = s.Model;
  } catch (error) {
    $("model").textContent = "engine: " + error.message;
  }
  setTimeout(watch, 1000);
}

watch();
