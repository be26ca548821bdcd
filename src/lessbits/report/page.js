"use strict";
const page = JSON.parse(document.getElementById("page").textContent);
const shown = { across: page.opens, upwards: 0, scale: "log" };
const dashes = ["solid", "dash", "dot", "dashdot"];
const markers = ["circle", "square", "diamond", "triangle-up", "x", "star", "cross"];
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function colour(number) {
  const given = page.colours[number % page.colours.length];
  return given === "#000000" ? style("--text") : given; // black is for light pages
}

function curve(run, number) {
  const across = page.across[shown.across], upwards = page.upwards[shown.upwards];
  const x = (run.columns[across.column] || []).map((value) => value * across.factor);
  return {
    name: run.name, x, y: run.columns[upwards.column], mode: "lines+markers",
    line: { color: colour(number), width: 2, dash: dashes[Math.floor(number / page.colours.length) % dashes.length] },
    marker: { symbol: markers[number % markers.length], size: 8, maxdisplayed: 8 },
    hovertemplate: "%{y:.3e} after %{x:,.6~g} " + across.title + "<extra>%{fullData.name}</extra>",
  };
}

function cut() { // one run that goes very deep must not press all others together
  const floor = page.upwards[shown.upwards].floor;
  return floor && shown.scale === "log" ? { autorangeoptions: { clipmin: floor } } : {};
}

function draw() {
  const narrow = window.innerWidth < 700;
  const axis = { gridcolor: style("--line"), zerolinecolor: style("--line"), automargin: true };
  Plotly.react("plot", page.runs.map(curve), {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest",
    font: { color: style("--text"), family: "system-ui, sans-serif", size: narrow ? 12 : 14 },
    margin: { l: 60, r: 10, t: 34, b: 50 },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: style("--faint"), activecolor: style("--accent") },
    xaxis: { ...axis, title: { text: page.across[shown.across].title }, rangemode: "tozero" },
    yaxis: { ...axis, title: { text: page.upwards[shown.upwards].title }, type: shown.scale, exponentformat: "power", ...cut() },
    legend: { orientation: "h", y: narrow ? -0.25 : -0.2, yanchor: "top" }, // below: curves need the room
  }, {
    responsive: true, displaylogo: false,
    modeBarButtonsToRemove: ["sendChartToCloud", "sendDataToCloud", "select2d", "lasso2d"], // nothing leaves the page
  });
  for (const swatch of document.querySelectorAll("td.swatch")) {
    swatch.style.setProperty("--swatch", colour(Number(swatch.dataset.run)));
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
    button.setAttribute("aria-pressed", String(value === shown[key]));
    button.addEventListener("click", () => {
      shown[key] = value;
      for (const other of group.querySelectorAll("button")) {
        other.setAttribute("aria-pressed", String(other === button));
      }
      draw();
    });
    group.append(button);
  }
}

addSwitch("across", "Against", page.across.map((one, number) => [number, one.title]));
addSwitch("upwards", "Show", page.upwards.map((one, number) => [number, one.title.split(",")[0]]));
addSwitch("scale", "Scale", [["log", "log"], ["linear", "linear"]]);
dark.addEventListener("change", draw);
let before = window.innerWidth < 700;
window.addEventListener("resize", () => {
  if ((window.innerWidth < 700) !== before) { before = !before; draw(); }
});
draw();
