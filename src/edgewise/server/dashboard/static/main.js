// Puts the page together: which part is shown, in which colours.

import { startCaptions } from "./captions.js";
import { startDecide } from "./decide.js";
import { startFeed } from "./feed.js";
import { connected, current, startOverview } from "./overview.js";
import { byId } from "./page_parts.js";
import { startPlayground } from "./playground.js";
import { startStart } from "./start.js";

const PAGES = ["overview", "playground", "captions"];

function showPage(move) {
  const wanted = location.hash.slice(1);
  const can = PAGES.filter((name) => name !== "captions" || current()?.captions !== false);
  const shown = can.includes(wanted) ? wanted : "overview";
  for (const name of PAGES) {
    byId(name).hidden = name !== shown;
    const link = document.querySelector(`nav a[data-page="${name}"]`);
    if (name === shown) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${document.querySelector(`nav a[data-page="${shown}"]`).textContent} · edgewise`;
  if (move) { window.scrollTo(0, 0); byId(`${shown}-title`).focus({ preventScroll: true }); }
}

function startTheme() {
  const choice = byId("theme");
  const apply = () => {
    if (choice.value === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice.value;
  };
  choice.value = localStorage.getItem("edgewise-theme") || "auto";
  choice.addEventListener("change", () => { localStorage.setItem("edgewise-theme", choice.value); apply(); });
  apply();
}

startTheme();
window.addEventListener("hashchange", () => { if (location.hash !== "#content") showPage(true); });
showPage(false);
startCaptions();
startStart();
startFeed();
startDecide();
startOverview().then(() => showPage(false)).then(startPlayground).catch((error) => connected(false, error));
