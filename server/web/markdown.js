// Markdown as HTML: tables, code in colours, TeX between $ and $, $$ and $$, \( and \), \[ and \] as MathML. HTML in the text stays text. markdown-it,
// highlight.js and KaTeX are in vendor.

import { element, copy } from "./dom.js";

const md = markdownit({ linkify: true, highlight: colours });

function colours(code, language) {
  return hljs.getLanguage(language) ? hljs.highlight(code, { language, ignoreIllegals: true }).value : "";
}

const formula = (tex, displayMode) => katex.renderToString(tex, { displayMode, output: "mathml", throwOnError: false });

const delimiters = [["$$", "$$", true], ["\\[", "\\]", true], ["\\(", "\\)", false], ["$", "$", false]];

// inline finds formulae within a paragraph.
md.inline.ruler.before("escape", "formula", (state, silent) => {
  for (const [open, close, display] of delimiters) {
    if (!state.src.startsWith(open, state.pos)) continue;
    const from = state.pos + open.length, to = state.src.indexOf(close, from);
    const tex = state.src.slice(from, to);
    // A price is no formula: the dollars of one stand close to it, and no digit comes behind.
    if (to < 0 || !tex.trim() || open === "$" && (/^\s|\s$/.test(tex) || /^\d/.test(state.src.slice(to + 1)))) continue;
    if (!silent) Object.assign(state.push("formula", "", 0), { content: tex, meta: display });
    state.pos = to + close.length;
    return true;
  }
  return false;
});

// Formulae over several lines are blocks, of which Markdown must not make lists or rules.
md.block.ruler.before("fence", "formula", (state, start, end, silent) => {
  const line = i => state.src.slice(state.bMarks[i] + state.tShift[i], state.eMarks[i]);
  const found = delimiters.find(([open, , display]) => display && line(start).startsWith(open));
  if (!found) return false;
  const [open, close] = found;
  let last = start, text = line(start).slice(open.length);
  while (!text.trimEnd().endsWith(close)) {
    if (++last >= end) return false;
    text += "\n" + line(last);
  }
  if (silent) return true;
  Object.assign(state.push("formula", "", 0), { content: text.trimEnd().slice(0, -close.length), meta: true, block: true, map: [start, last + 1] });
  state.line = last + 1;
  return true;
}, { alt: ["paragraph", "list"] });

md.renderer.rules.formula = (tokens, i) => formula(tokens[i].content, tokens[i].meta);

md.renderer.rules.link_open = (tokens, i, options, _, self) => {
  tokens[i].attrSet("target", "_blank");
  tokens[i].attrSet("rel", "noopener noreferrer");
  return self.renderToken(tokens, i, options);
};

// Pictures would be fetched from wherever an answer says; they are links.
md.renderer.rules.image = (tokens, i) => {
  const e = document.createElement("a");
  e.href = tokens[i].attrGet("src");
  e.rel = "noopener noreferrer";
  e.target = "_blank";
  e.textContent = tokens[i].content || e.href;
  return e.outerHTML;
};

// Styles in attributes are not allowed by the page's policy; a column's side is a class.
for (const cell of ["th_open", "td_open"]) {
  md.renderer.rules[cell] = (tokens, i, options, _, self) => {
    const side = /text-align:(\w+)/.exec(tokens[i].attrGet("style") ?? "");
    tokens[i].attrs = side ? [["class", side[1]]] : null;
    return self.renderToken(tokens, i, options);
  };
}

// draw makes a box show a text.
export function draw(box, text) {
  box.innerHTML = md.render(text);
  for (const pre of box.querySelectorAll("pre")) {
    pre.append(element("button", { type: "button", className: "copy", textContent: "Copy", onclick: () => copy(pre.querySelector("code").textContent) }));
  }
}
