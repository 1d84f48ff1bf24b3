// What the page does besides, where scripts run: the browser's own zone among those to choose from, and what is shown follows what happens.
"use strict";
const zones = document.querySelector(".zones");
const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zones && own && own !== "UTC" && zones.dataset.zone !== own) {
  const here = new URL(location.href);
  here.searchParams.set("zone", own);
  here.searchParams.delete("said");
  const link = document.createElement("a");
  link.href = here.pathname + here.search;
  link.textContent = "this browser’s, " + own;
  zones.append(link);
}

// The part that is live is fetched anew, at most once a second, when something happens to what it shows. A page that nobody sees holds no connection.
const live = document.querySelector("[data-live]");
let told, due, later, renewed = 0, stale = false;

const leadsTo = (e) => [e.getAttribute("href") || e.form?.getAttribute("action"), e.value].join(" ");

async function renew() {
  clearTimeout(due);
  clearTimeout(later);
  due = later = undefined;
  renewed = Date.now();
  const answer = await fetch(location.href, { redirect: "error" });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-live]");
  if (!fresh) return;
  const at = document.activeElement;
  const focused = live.contains(at) ? { to: leadsTo(at), text: at.textContent } : null;
  const others = fresh.dataset.live !== live.dataset.live;
  live.dataset.live = fresh.dataset.live;
  live.replaceChildren(...fresh.childNodes);
  const all = [...live.querySelectorAll("a, button")];
  // An address of another page of the list is never the same twice.
  if (focused) (all.find((e) => leadsTo(e) === focused.to) ?? all.find((e) => e.textContent === focused.text))?.focus();
  if (others) {
    told?.close();
    told = undefined;
    stale = true; // what happens until the next stream is open is told by none
    watch();
  }
  follow();
}

// Many sources are added at once by an import, and many begin to wait: for what is new alone the list is fetched once in ten seconds, and where it has just shown others.
function happened(event) {
  const it = event?.type === "connector" && JSON.parse(event.data);
  const isNew = it ? it.type === "echomind.connector.added" || !live.dataset.live.split(",").includes(it.subject)
    : !event && (live.dataset.added !== undefined || live.dataset.waits !== undefined);
  if (isNew && Date.now() - renewed < 10000) {
    later ??= setTimeout(() => renew().catch(() => {}), 10000);
    return;
  }
  due ??= setTimeout(() => renew().catch(() => {}), 1000); // the next event tries again
}

// The open run that is shown tells when it has come further; where it ends, so does its stream.
let run;

function follow() {
  const id = document.hidden ? undefined : live.querySelector("[data-run]")?.dataset.run;
  if (run?.id === id) return;
  run?.stream.close();
  run = id && { id, stream: new EventSource("/runs/" + id + "/events") };
  run?.stream.addEventListener("progress", happened);
}

// What is shown, for a list what is added, and for the queue what waits.
const watched = () => [live.dataset.live && "connectors=" + live.dataset.live, live.dataset.added !== undefined && "added=true", live.dataset.waits !== undefined && "waits=true"].filter(Boolean).join("&");

function watch() {
  follow();
  if (document.hidden) {
    told?.close();
    told = undefined;
    stale = true;
    return;
  }
  if (told || !watched()) return;
  told = new EventSource("/events?" + watched());
  for (const kind of ["connector", "run", "reset"]) told.addEventListener(kind, happened);
  told.onerror = () => {
    if (told?.readyState !== EventSource.CLOSED) return; // it comes back by itself
    told = undefined;
    stale = true;
    setTimeout(watch, 30000);
  };
  if (stale) happened(); // what happened meanwhile
  stale = false;
}

if (live && watched()) {
  watch();
  document.addEventListener("visibilitychange", watch);
}
