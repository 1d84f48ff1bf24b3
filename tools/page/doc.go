// Package page looks at the page of services/api with a real browser: no error of a script, no request to another host, works with a keyboard, and pictures for docs.
// A module of its own, so that what drives the browser is no part of what the services are made of. `make test-page` runs it; it needs chromium.
package page
