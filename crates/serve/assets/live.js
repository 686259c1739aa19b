// Keeps the open page current: fetches it again every few seconds and replaces <main> when it differs.
"use strict";

(() => {
  const PERIOD_MS = 5000;
  const PATIENCE_MS = 10000;
  // What never changes is not asked for again, and what the reader unfolded in it stays so.
  if (document.getElementById("main").hasAttribute("data-still")) return;
  const live = document.getElementById("live");
  let timer = 0;

  function show(state, words) {
    live.hidden = false;
    live.querySelector(".dot").className = "dot " + state;
    const place = live.querySelector(".live-words");
    // A status region is read aloud when it is written to, so write only what is new.
    if (place.textContent !== words) place.textContent = words;
  }

  function isInUse(main) {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && main.contains(selection.anchorNode);
  }

  function replace(fresh) {
    const main = document.getElementById("main");
    const next = fresh.getElementById("main");
    if (!next || main.innerHTML === next.innerHTML || isInUse(main)) return;
    const focusable = "a[href], button, [tabindex='0']";
    const focused = [...main.querySelectorAll(focusable)].indexOf(document.activeElement);
    const places = [...main.querySelectorAll(".scroll, .sheet, pre")].map((part) => part.scrollLeft);
    main.replaceChildren(...next.childNodes);
    main.querySelectorAll(".scroll, .sheet, pre").forEach((part, at) => { part.scrollLeft = places[at] || 0; });
    if (focused >= 0) main.querySelectorAll(focusable)[focused]?.focus({ preventScroll: true });
    document.title = fresh.title;
  }

  async function refresh() {
    try {
      const answer = await fetch(location.href, { signal: AbortSignal.timeout(PATIENCE_MS) });
      if (!(answer.headers.get("content-type") || "").startsWith("text/html")) throw new Error("not a page");
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (fresh.documentElement.dataset.build !== document.documentElement.dataset.build) {
        location.reload();
        return;
      }
      replace(fresh);
      show("good", "Live");
    } catch {
      show("bad", "Disconnected");
    }
    schedule();
  }

  function schedule() {
    clearTimeout(timer);
    if (!document.hidden) timer = setTimeout(refresh, PERIOD_MS);
  }

  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (!document.hidden) refresh();
  });
  show("good", "Live");
  schedule();
})();
