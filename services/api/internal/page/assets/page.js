// What the page does besides, where scripts run: the browser's own zone among those to choose from.
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
