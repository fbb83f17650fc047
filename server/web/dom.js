// Short words for what the browser has.

export const $ = id => document.getElementById(id);

// element makes one with properties, and with children: elements and texts.
export function element(tag, properties = {}, ...children) {
  const e = Object.assign(document.createElement(tag), properties);
  e.append(...children);
  return e;
}

// button is a button with a name for those who cannot see its sign.
export function button(sign, name, onclick) {
  const b = element("button", { type: "button", title: name, onclick }, sign);
  b.setAttribute("aria-label", name);
  return b;
}

// newID is 128 random bits. crypto.randomUUID is there only for pages that came by HTTPS or from this host.
export const newID = () => [...crypto.getRandomValues(new Uint8Array(16))].map(b => b.toString(16).padStart(2, "0")).join("");

// copy puts a text on the clipboard. Pages that came by plain HTTP from another host have no navigator.clipboard: there it goes through a selection.
export function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const before = document.activeElement, area = element("textarea", { value: text });
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  before?.focus();
}
