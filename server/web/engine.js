// The view of the engine: its stats, read once a second, and their curves over the last minute.

import { $ } from "./dom.js";
import { get } from "./api.js";

const past = 60; // points of a curve, a second each
const history = { step: [], rate: [] };
let before = null; // the stats a second ago

// tile shows a figure under its name.
function tile(name, value) {
  const box = document.createElement("div"), label = document.createElement("span"), figure = document.createElement("b");
  label.textContent = name;
  figure.textContent = value;
  box.append(figure, label);
  return box;
}

// curve draws values from left to right, the newest at the right edge, top at the top.
function curve(line, values, top) {
  const points = values.map((v, i) => `${past - values.length + i + 1},${(30 - 28 * Math.min(v / top, 1)).toFixed(2)}`);
  line.setAttribute("points", points.join(" "));
}

// alone draws a single curve.
function alone(svg, values) {
  curve(svg.querySelector("polyline"), values, Math.max(...values, 1e-9));
}

// price shows what the latest steps were predicted to take, dashed, and what they took. The highest of each hundred may
// leave the picture, so that an interruption does not flatten the rest.
function price(steps) {
  const actual = steps.map(s => s.actual_ns), predicted = steps.map(s => s.predicted_ns);
  const high = [...actual].sort((a, b) => a - b)[Math.floor(0.99 * (actual.length - 1))];
  const top = 1.2 * Math.max(high || 0, 1);
  const [dashed, line] = $("priced").querySelectorAll("polyline");
  curve(dashed, predicted, top);
  curve(line, actual, top);
  const miss = steps.filter(s => s.predicted_ns > 0).map(s => Math.abs(s.predicted_ns - s.actual_ns) / s.actual_ns).sort((a, b) => a - b);
  $("off").textContent = miss.length ? "median prediction error " + Math.round(100 * miss[miss.length >> 1]) + " %" : "";
}

function remember(list, value) {
  list.push(value);
  if (list.length > past) list.shift();
}

// display shows the stats s, read at the time now in milliseconds.
function display(s, now) {
  const seconds = before ? (now - before.now) / 1000 : 1;
  const steps = before ? s.Steps - before.s.Steps : 0;
  const output = before ? (s.Output - before.s.Output) / seconds : 0;
  before = { s, now };
  remember(history.step, steps > 0 ? s.StepTime / 1e6 : 0);
  remember(history.rate, output);
  $("tiles").replaceChildren(
    tile("running", s.Running), tile("waiting", s.Waiting),
    tile("prefix cache hits", s.Queried ? Math.round(100 * s.Found / s.Queried) + " %" : "–"), tile("preempted", s.Preemptions));
  $("used").style.width = 100 * s.PagesUsed / s.Pages + "%";
  $("idle").style.width = 100 * s.PagesIdle / s.Pages + "%";
  $("cache").textContent = `cache: ${s.PagesUsed} pages in use, ${s.PagesIdle} cached, of ${s.Pages} (${s.PageSize} tokens each)`;
  $("bar").setAttribute("aria-label", $("cache").textContent);
  $("step").textContent = (s.StepTime / 1e6).toFixed(1) + " ms";
  $("rate").textContent = output.toFixed(0) + " tokens/s";
  alone($("steps"), history.step);
  alone($("rates"), history.rate);
  $("state").textContent = "";
}

// watch polls the stats.
async function watch() {
  try {
    display(await get("stats"), performance.now());
    price((await get("steps?n=" + past)).steps);
  } catch (error) {
    $("state").textContent = error instanceof TypeError ? "the server does not answer" : "engine: " + error.message;
    if (error.status === 401) {
      $("access").open = true;
      document.body.classList.add("setting");
    }
  }
  setTimeout(watch, 1000);
}

watch();
