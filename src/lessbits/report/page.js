"use strict";
const page = JSON.parse(document.getElementById("page").textContent);
const shown = { across: page.opens, upwards: page.shows, sideways: null, scale: "log", depth: "target" };
const dashes = ["solid", "dash", "dot", "dashdot"];
const markers = ["circle", "square", "diamond", "triangle-up", "x", "star", "cross"];
const prefixes = ["n", "µ", "m", "", "k", "M", "G", "T"]; // of units
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function colour(number) {
  const given = page.colours[number % page.colours.length];
  return { "#000000": style("--text"), "#0072B2": style("--blue") }[given] || given; // these two are for light pages
}

function sideways() { // the scale of the horizontal axis: chosen, or by how far apart the runs end
  return shown.sideways || (page.across[shown.across].log ? "log" : "linear");
}

function look(number) {
  return { color: colour(number), width: 2.5, dash: dashes[Math.floor(number / page.colours.length) % dashes.length] };
}

function plain(text) { // Plotly takes names for its own kind of HTML, with links
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

function places(column) { // of all runs on the horizontal axis
  return page.runs.flatMap((run) => (run.columns ? run.columns[column] : ((run.bands[column] || {})[page.goal] || {}).x) || []);
}

function leftmost(column) { // the smallest place that a logarithmic axis has
  return places(column).filter((value) => value > 0).reduce((least, value) => Math.min(least, value), Infinity);
}

function scaled() { // the factor and the unit in which a linear axis counts: 10 kbit
  const across = page.across[shown.across];
  if (!across.unit || sideways() === "log") return { factor: across.factor, unit: across.unit };
  const largest = across.factor * places(across.column).reduce((most, value) => Math.max(most, value), 0);
  const power = largest > 0 ? Math.max(-3, Math.min(4, Math.floor(Math.log10(largest) / 3 + 1e-9))) : 0;
  return { factor: across.factor / 1000 ** power, unit: prefixes[power + 3] + across.unit };
}

function decades(lines) { // ticks of a logarithmic axis that has a unit: 1 kbit, 10 kbit, 100 kbit
  const powers = lines.flatMap((line) => line.x || []).filter((value) => value > 0).map(Math.log10);
  if (!powers.length) return {};
  const low = Math.floor(powers.reduce((least, value) => Math.min(least, value), Infinity));
  const high = Math.ceil(powers.reduce((most, value) => Math.max(most, value), -Infinity));
  const tickvals = Array.from({ length: high - low + 1 }, (_, step) => 10 ** (low + step));
  const ticktext = tickvals.map((_, step) => {
    const power = Math.max(-3, Math.min(4, Math.floor((low + step) / 3)));
    return 10 ** (low + step - 3 * power) + " " + prefixes[power + 3] + page.across[shown.across].unit;
  });
  return { tickmode: "array", tickvals, ticktext };
}

function curves(run, number) { // one line, or the lines and the area of a band
  const across = page.across[shown.across], upwards = page.upwards[shown.upwards];
  const { factor, unit } = scaled();
  const line = {
    name: plain(run.name), legendgroup: String(number), line: look(number),
    hovertemplate: "%{y:.3~g} at " + (sideways() === "log" && unit ? "%{x:.4~s}" : "%{x:.4~g} ") + unit + "<extra>%{fullData.name}</extra>",
  };
  if (run.columns) {
    let x = (run.columns[across.column] || []).map((value) => value * factor);
    // A run that was at its target from the start sent nothing: a logarithmic axis has no place for it but its edge.
    if (sideways() === "log" && x.length && !x.some((value) => value > 0)) x = x.map(() => leftmost(across.column) * factor);
    const marker = { symbol: markers[number % markers.length], size: 8, maxdisplayed: 8 };
    const shape = x.length < 15 ? "hv" : "linear"; // between few records a straight line would claim too much
    return [{ ...line, line: { ...line.line, shape }, x, y: run.columns[upwards.column], mode: "lines+markers", marker }];
  }
  const band = run.bands[across.column][upwards.column];
  if (!band) return [];
  const x = band.x.map((value) => value * factor);
  const edge = { x, mode: "lines", line: { width: 0 }, legendgroup: String(number), showlegend: false, hoverinfo: "skip" };
  const fill = { fill: "tonexty", fillcolor: colour(number) + "33" };
  return [{ ...edge, y: band.low }, { ...edge, y: band.high, ...fill }, { ...line, x, y: band.middle, mode: "lines" }];
}

function isCut() { // whether the vertical axis ends below the target; the note says what is further down
  return Boolean(page.upwards[shown.upwards].end) && shown.scale === "log" && shown.depth === "target";
}

function height(lines) { // the range and the ticks of the vertical axis
  if (shown.scale === "linear") return { type: "linear", autorange: true };
  const heights = lines.flatMap((line) => line.y || []).filter((value) => value > 0);
  const high = Math.log10(heights.reduce((most, value) => Math.max(most, value), 0));
  const low = Math.log10(isCut() ? page.upwards[shown.upwards].end : heights.reduce((least, value) => Math.min(least, value), Infinity));
  const ticks = high - low > 1 && high - low < 13 ? { dtick: 1 } : {};
  return { type: "log", exponentformat: "power", ...ticks, ...(isCut() ? { range: [low, high + 0.2] } : { autorange: true }) };
}

function eventMarks() { // what happened to nodes and links; on other axes than iterations only if there is one run
  const across = page.across[shown.across], { factor } = scaled(), log = sideways() === "log";
  if (across.column !== "iteration" && page.runs.length > 1) return { lines: [], labels: [] };
  const events = page.runs.flatMap((run) => run.events[across.column] || []).map(([place, text]) => [place * factor, text]);
  const marks = [...new Map(events.map((event) => [event.join(" "), event])).values()].filter(([place]) => !log || place > 0);
  const line = { color: style("--faint"), width: 1, dash: "dash" }, font = { color: style("--faint"), size: 11 };
  return {
    lines: marks.map(([x]) => ({ type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1, line, layer: "below" })),
    labels: marks.length > page.labels ? [] : marks.map(([x, text]) => ({
      x: log ? Math.log10(x) : x, yref: "paper", y: 1, text: plain(text), textangle: -90, xanchor: "right", yanchor: "top", showarrow: false, font,
    })),
  };
}

function targetLine() {
  const upwards = page.upwards[shown.upwards];
  if (upwards.column !== page.goal || !(page.target > 0)) return [];
  const line = { color: style("--faint"), width: 1.5, dash: "dot" };
  const label = { text: "target", textposition: "start", font: { color: style("--faint") } };
  return [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: page.target, y1: page.target, line, label }];
}

function draw() {
  const narrow = window.innerWidth < 700;
  const across = page.across[shown.across], upwards = page.upwards[shown.upwards];
  const axis = { gridcolor: style("--line"), zerolinecolor: style("--line"), linecolor: style("--faint"), automargin: true };
  const lines = page.runs.flatMap(curves), events = eventMarks();
  const units = !across.unit ? {} : sideways() === "log" ? decades(lines) : { ticksuffix: " " + scaled().unit };
  Plotly.react("plot", lines, {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest",
    font: { color: style("--text"), family: "system-ui, sans-serif", size: narrow ? 12 : 14 },
    margin: { l: narrow ? 44 : 64, r: 10, t: 30, b: 50 },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: style("--faint"), activecolor: style("--accent") },
    xaxis: { ...axis, title: { text: across.title }, type: sideways(), rangemode: "tozero", nticks: narrow ? 5 : 0,
      ...(sideways() === "log" ? { dtick: 1 } : {}), ...units },
    yaxis: { ...axis, title: { text: upwards.title }, ...height(lines) },
    legend: { orientation: "h", y: narrow ? -0.2 : -0.13, yanchor: "top" }, // below: curves need the room
    shapes: [...targetLine(), ...events.lines], annotations: events.labels,
  }, {
    responsive: true, displaylogo: false,
    modeBarButtonsToRemove: ["sendChartToCloud", "sendDataToCloud", "select2d", "lasso2d"], // nothing leaves the page
  });
  for (const swatch of document.querySelectorAll("td.swatch")) {
    const number = Number(swatch.dataset.run);
    swatch.style.setProperty("--swatch", colour(number));
    swatch.style.setProperty("--dash", { solid: "solid", dash: "dashed", dot: "dotted" }[look(number).dash] || "double");
  }
  document.getElementById("note").textContent = isCut() ? upwards.note + " Choose “Down to: all” to see it." : "";
  document.getElementById("depth").hidden = !(upwards.end && shown.scale === "log");
  press("sideways", sideways());
}

function press(key, value) {
  for (const button of document.querySelectorAll(`#${key} button`)) {
    button.setAttribute("aria-pressed", String(button.dataset.value === String(value)));
  }
}

function addSwitch(key, title, choices) {
  const group = document.getElementById(key);
  const label = document.createElement("span");
  label.textContent = title;
  group.append(label);
  for (const [value, text] of choices) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.dataset.value = String(value);
    button.addEventListener("click", () => { shown[key] = value; press(key, value); draw(); });
    group.append(button);
  }
  press(key, shown[key]);
}

addSwitch("across", "Against", page.across.map((one, number) => [number, one.title]));
addSwitch("upwards", "Show", page.upwards.map((one, number) => [number, one.title.split(",")[0]]));
addSwitch("sideways", "Horizontal axis", [["log", "log"], ["linear", "linear"]]);
addSwitch("scale", "Vertical axis", [["log", "log"], ["linear", "linear"]]);
addSwitch("depth", "Down to", [["target", "target"], ["all", "all"]]);
dark.addEventListener("change", draw);
let before = window.innerWidth < 700;
window.addEventListener("resize", () => {
  if ((window.innerWidth < 700) !== before) { before = !before; draw(); }
});
function printing(on) { // paper is light, and has no button to open what is folded
  document.documentElement.classList.toggle("printing", on);
  for (const folded of document.querySelectorAll("details")) folded.open = on;
  draw();
}
window.addEventListener("beforeprint", () => printing(true));
window.addEventListener("afterprint", () => printing(false));
draw();
