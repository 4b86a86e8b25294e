// SPDX-License-Identifier: GPL-2.0
"use strict";

const charts = JSON.parse(document.getElementById("charts").textContent);
const root = document.documentElement;
const system = window.matchMedia("(prefers-color-scheme: dark)");
let chosen = null;

const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

// Text, axes and grid in the colours of the page; the charts bring all others.
function painted(chart) {
  const ink = colour("--ink"), soft = colour("--soft"), grid = colour("--grid");
  const layout = structuredClone(chart.layout);
  for (const key of Object.keys(layout).filter((key) => /^[xy]axis/.test(key))) {
    layout[key] = Object.assign(
      { gridcolor: grid, linecolor: grid, zerolinecolor: grid, tickfont: { color: soft }, fixedrange: false },
      layout[key]
    );
    if (layout[key].title) layout[key].title.font = { color: soft, size: 13 };
  }
  for (const note of layout.annotations || []) note.font = { color: ink, size: 13 };
  return Object.assign(layout, {
    height: chart.height,
    autosize: true,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: ink, size: 13, family: getComputedStyle(document.body).fontFamily },
    margin: Object.assign({ l: 60, r: 24, t: 24, b: 44 }, layout.margin),
    hoverlabel: { bgcolor: colour("--card"), bordercolor: grid, font: { color: ink } },
  });
}

// Marks that must stand out on any colour ask for the ink of the page.
function inked(chart) {
  const ink = { color: colour("--ink") };
  const part = { "ink-marker": "marker", "ink-text": "textfont" };
  return chart.data.map((trace) => {
    const name = part[trace.meta];
    return name ? Object.assign({}, trace, { [name]: Object.assign({}, trace[name], ink) }) : trace;
  });
}

function paint() {
  const dark = chosen === null ? system.matches : chosen === "dark";
  root.dataset.theme = dark ? "dark" : "light";
  document.getElementById("theme").textContent = dark ? "Light" : "Dark";
  for (const chart of charts)
    Plotly.react("chart-" + chart.key, inked(chart), painted(chart), {
      responsive: true,
      displaylogo: false,
      displayModeBar: window.matchMedia("(hover: hover)").matches,
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
      toImageButtonOptions: { format: "svg", filename: "cpuidle-lab-" + chart.key },
    });
}

document.getElementById("theme").addEventListener("click", () => {
  chosen = root.dataset.theme === "dark" ? "light" : "dark";
  paint();
});
system.addEventListener("change", paint);
paint();

// Shows the worst decisions of one governor on one recording.
for (const pick of document.querySelectorAll(".pick select"))
  pick.addEventListener("change", showWorst);

function showWorst() {
  const wanted = ["trace", "governor"].map((name) => document.getElementById("pick-" + name).value);
  for (const part of document.querySelectorAll("tbody[data-trace]"))
    part.hidden = part.dataset.trace !== wanted[0] || part.dataset.governor !== wanted[1];
}
if (document.getElementById("pick-trace")) showWorst();
