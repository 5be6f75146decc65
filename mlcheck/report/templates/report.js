"use strict";
const items = [...document.querySelectorAll(".item")];
const sections = [...document.querySelectorAll(".stage")];
const buttons = [...document.querySelectorAll("[data-show]")];
const search = document.getElementById("search");
const fold = document.getElementById("fold");
const haystacks = new Map(items.map((item) => [item, item.textContent.toLowerCase()]));
document.querySelector(".tools").hidden = false;

function show() {
  const wanted = new Set(buttons.filter((button) => button.ariaPressed === "true").map((button) => button.dataset.show));
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const item of items) {
    const matches = (!wanted.size || wanted.has(item.dataset.outcome)) && words.every((word) => haystacks.get(item).includes(word));
    item.hidden = !matches;
    shown += matches;
  }
  for (const section of sections) section.hidden = !section.querySelector(".item:not([hidden])");
  document.getElementById("none").hidden = shown > 0;
  document.getElementById("shown").textContent = shown < items.length ? `${shown} of ${items.length}` : "";
}

function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target || !target.matches(".item")) return;
  if (target.hidden) {
    for (const button of buttons) button.ariaPressed = "false";
    search.value = "";
    show();
  }
  target.open = true;
  target.scrollIntoView();
}

for (const button of buttons) {
  button.addEventListener("click", () => {
    button.ariaPressed = String(button.ariaPressed !== "true");
    show();
  });
}
search.addEventListener("input", show);
fold.addEventListener("click", () => {
  const open = fold.ariaPressed !== "true";
  fold.ariaPressed = String(open);
  fold.textContent = open ? "Fold all" : "Open all";
  for (const item of items) item.open = open;
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== search) {
    event.preventDefault();
    search.focus();
  } else if (event.key === "Escape" && document.activeElement === search) {
    search.value = "";
    show();
  }
});
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (link && link.hash === location.hash) reveal();
});
addEventListener("hashchange", reveal);
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const details of folded) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of folded) details.open = false;
});
reveal();
