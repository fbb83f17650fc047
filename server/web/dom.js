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
