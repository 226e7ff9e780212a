"use strict";
// The pages work without this file. It adds: arrow keys between pages and rows, images that enlarge in place, and progress without a reload.

const step = (name) => document.querySelector(`a[rel="${name}"]`);

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest("input, select, textarea, audio, .scroll, dialog[open]")) return;
  if (event.key === "/") {
    const search = document.querySelector('input[name="where"]');
    if (search) { event.preventDefault(); search.focus(); }
    return;
  }
  const link = { ArrowLeft: "prev", k: "prev", ArrowRight: "next", j: "next" }[event.key];
  const target = link && step(link);
  if (target) { event.preventDefault(); target.click(); }
});

const dialog = document.createElement("dialog");
const picture = document.createElement("img");
dialog.addEventListener("click", () => dialog.close());
dialog.addEventListener("close", () => { picture.removeAttribute("src"); picture.remove(); });
document.body.append(dialog);

document.addEventListener("click", (event) => {
  const link = event.target.closest("a.picture");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  dialog.append(picture);
  picture.src = link.href;
  picture.alt = link.querySelector("img")?.alt ?? "";
  dialog.showModal();
});

async function refresh(seconds) {
  await new Promise((done) => setTimeout(done, seconds * 1000));
  if (document.hidden) return refresh(seconds);
  const answer = await fetch(location.href, { headers: { accept: "text/html" } }).catch(() => null);
  if (!answer || !answer.ok) return refresh(seconds);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const old = document.getElementById("content");
  const held = document.activeElement && old.contains(document.activeElement);
  const open = [...old.querySelectorAll("details")].map((each) => each.open);
  const next = fresh.getElementById("content");
  if (!held) {
    old.replaceWith(document.adoptNode(next));
    [...next.querySelectorAll("details")].forEach((each, at) => { each.open = open[at] ?? each.open; });
  }
  if (fresh.body.dataset.refresh || held) return refresh(seconds);
  delete document.body.dataset.refresh;
}

if (document.body.dataset.refresh) refresh(Number(document.body.dataset.refresh));
