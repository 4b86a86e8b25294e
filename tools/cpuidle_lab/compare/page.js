// SPDX-License-Identifier: GPL-2.0
// Shows the worst decisions of one governor on one recording.
for (const pick of document.querySelectorAll(".pick select"))
  pick.addEventListener("change", showWorst);

function showWorst() {
  const wanted = ["trace", "governor"].map((name) => document.getElementById("pick-" + name).value);
  for (const part of document.querySelectorAll("tbody[data-trace]"))
    part.hidden = part.dataset.trace !== wanted[0] || part.dataset.governor !== wanted[1];
}
if (document.getElementById("pick-trace")) showWorst();
