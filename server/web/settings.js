// Settings: the key, sampling, system messages with their names, the model. The browser keeps them.

import { $, element } from "./dom.js";
import { get } from "./api.js";
import * as store from "./store.js";

const numbers = ["temperature", "top_p", "top_k", "min_p", "max_tokens", "seed"];
const kept = ["key", ...numbers];

let contexts = {}; // tokens of context, by the name of a model

// sampling is what the settings say of an answer.
export function sampling() {
  const b = {};
  if ($("models").value) b.model = $("models").value;
  for (const name of numbers) {
    if ($(name).value !== "") b[name] = Number($(name).value);
  }
  return b;
}

// context is how many tokens the chosen model takes; 0: it is not known before it was loaded.
export const context = () => contexts[$("models").value] ?? 0;

// loadModels reads which models there are.
export async function loadModels() {
  const { data } = await get("v1/models");
  contexts = Object.fromEntries(data.map(m => [m.id, m.max_model_len ?? data.find(base => base.id === m.parent)?.max_model_len]));
  const chosen = $("models").value || store.setting("model", "");
  $("models").replaceChildren(...data.map(m => element("option", { value: m.id }, m.id)));
  if (data.some(m => m.id === chosen)) $("models").value = chosen;
}

// begin reads what is kept, and keeps what is changed. changed(text) is called for another system message.
export function begin(changed) {
  for (const name of kept) {
    $(name).value = store.setting(name, "");
    $(name).addEventListener("input", () => store.set(name, $(name).value));
  }
  $("key").addEventListener("change", () => loadModels().catch(() => {}));
  $("models").addEventListener("change", () => store.set("model", $("models").value));
  $("system").addEventListener("input", () => { store.set("system", $("system").value); changed($("system").value); });
  presets();
  $("preset").addEventListener("change", () => {
    $("system").value = store.setting("presets", {})[$("preset").value] ?? "";
    $("system").dispatchEvent(new Event("input"));
  });
  $("keep").addEventListener("click", () => {
    const name = prompt("Name of this system message:", $("preset").value);
    if (!name) return;
    store.set("presets", { ...store.setting("presets", {}), [name]: $("system").value });
    presets(name);
  });
  $("drop").addEventListener("click", () => {
    const all = store.setting("presets", {});
    delete all[$("preset").value];
    store.set("presets", all);
    presets();
  });
}

// presets lists the system messages that have names.
function presets(chosen = "") {
  const names = Object.keys(store.setting("presets", {})).sort();
  $("preset").replaceChildren(element("option", { value: "" }, "none"), ...names.map(n => element("option", { value: n }, n)));
  $("preset").value = chosen;
}
