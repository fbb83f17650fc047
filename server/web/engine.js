"use strict";

// The view of the engine: where it stands, read once a second, and where it stood in the last minute.

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

// curve draws values from left to right, the newest at the right edge, the largest at the top.
function curve(svg, values) {
  const top = Math.max(...values, 1e-9);
  const points = values.map((v, i) => `${past - values.length + i + 1},${(30 - 28 * v / top).toFixed(2)}`);
  svg.querySelector("polyline").setAttribute("points", points.join(" "));
}

function remember(list, value) {
  list.push(value);
  if (list.length > past) list.shift();
}

// display shows what the engine said at a time, in milliseconds.
function display(s, now) {
  const seconds = before ? (now - before.now) / 1000 : 1;
  const steps = before ? s.Steps - before.s.Steps : 0;
  const output = before ? (s.Output - before.s.Output) / seconds : 0;
  before = { s, now };
  remember(history.step, steps > 0 ? s.StepTime / 1e6 : 0);
  remember(history.rate, output);
  $("tiles").replaceChildren(
    tile("running", s.Running), tile("waiting", s.Waiting),
    tile("prefix found", s.Queried ? Math.round(100 * s.Found / s.Queried) + " %" : "–"), tile("preempted", s.Preemptions));
  $("used").style.width = 100 * s.PagesUsed / s.Pages + "%";
  $("idle").style.width = 100 * s.PagesIdle / s.Pages + "%";
  $("cache").textContent = `cache: ${s.PagesUsed} pages used, ${s.PagesIdle} kept, of ${s.Pages} (${s.PageSize} tokens each)`;
  $("bar").setAttribute("aria-label", $("cache").textContent);
  $("step").textContent = (s.StepTime / 1e6).toFixed(1) + " ms";
  $("rate").textContent = output.toFixed(0) + " tokens/s";
  curve($("steps"), history.step);
  curve($("rates"), history.rate);
  $("model").textContent = s.Model;
  $("state").textContent = "";
}

// watch reads the stats for ever.
async function watch() {
  try {
    const response = await fetch("stats", { headers: headers() });
    if (!response.ok) throw new Error(response.status === 401 ? "needs the API key" : "answers " + response.status);
    display(await response.json(), performance.now());
  } catch (error) {
    $("state").textContent = error instanceof TypeError ? "the server does not answer" : "engine: " + error.message;
    if (error.message === "needs the API key") $("access").open = true;
  }
  setTimeout(watch, 1000);
}

watch();
