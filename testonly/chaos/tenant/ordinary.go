package tenant

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// crowd is how many ordinary connectors there are, of so many owners, and of what each has.
	crowd       = 50
	owners      = 10
	documentsOf = 4
	// every is the time between two changes that the others make. A refresh is a minute at least, so that their users ask.
	every = 100 * time.Millisecond
)

// ordinary is a connector of somebody who wishes nobody ill.
type ordinary struct {
	id    int32
	no    int
	owner int32
	// web reads pages, else files.
	web bool
	// texts are the paragraphs of each document, by source id.
	texts map[string][]string
	// editions are how often each was changed, by its number.
	editions [documentsOf]int
}

// addOrdinary makes folders and sites, and a connector for each.
func (l *lab) addOrdinary(ctx context.Context) error {
	for no := range crowd {
		o := &ordinary{no: no, owner: int32(1 + no%owners), web: no%2 == 1, texts: map[string][]string{}}
		for i := range documentsOf {
			if err := l.edit(o, i); err != nil {
				return err
			}
		}
		folder := url.URL{Scheme: "file", Path: l.folderOf(o)}
		kind, address := "file", folder.String()
		if o.web {
			kind, address = "web", l.Site.URL(o.path(""))
			links, words := "", words(fmt.Sprint("index", no), 40)
			for i := range documentsOf {
				links += fmt.Sprintf(`<li><a href="%d.html">page %d</a></li>`, i, i)
			}
			l.Site.Put(o.path(""), page("index", []string{words})+"<ul>"+links+"</ul>")
			o.texts[address] = []string{words}
		}
		config, err := json.Marshal(map[string]any{"url": address})
		if err != nil {
			return wrap("write a configuration", err)
		}
		err = l.Pool.QueryRow(ctx, `INSERT INTO connectors (name, type, user_id, config, refresh_freq_minutes)
			VALUES ($1, $2, $3, $4, 60) RETURNING id`, fmt.Sprint("ordinary ", no), kind, o.owner, config).Scan(&o.id)
		if err != nil {
			return wrap("add an ordinary connector", err)
		}
		l.others = append(l.others, o)
	}
	return nil
}

func (l *lab) folderOf(o *ordinary) string {
	return filepath.Join(l.Files, fmt.Sprint("ordinary", o.no))
}

func (o *ordinary) path(page string) string { return fmt.Sprintf("/ordinary%d/%s", o.no, page) }

// edit writes a new edition of a document. One of them is long, so that it has several chunks.
func (l *lab) edit(o *ordinary, document int) error {
	o.editions[document]++
	paragraphs := 2
	if document == 0 {
		paragraphs = 30
	}
	var texts []string
	for p := range paragraphs {
		texts = append(texts, words(fmt.Sprintf("c%dd%de%dp%d", o.no, document, o.editions[document], p), 30))
	}
	title := fmt.Sprintf("Document %d of %d", document, o.no)
	if o.web {
		path := o.path(fmt.Sprintf("%d.html", document))
		l.Site.Put(path, page(title, texts))
		o.texts[l.Site.URL(path)] = texts
		return nil
	}
	name := fmt.Sprintf("%d.md", document)
	o.texts[name] = texts
	if err := os.MkdirAll(l.folderOf(o), 0o755); err != nil {
		return wrap("make a folder", err)
	}
	text := "# " + title + "\n\n" + strings.Join(texts, "\n\n") + "\n"
	return wrap("write a file", os.WriteFile(filepath.Join(l.folderOf(o), name), []byte(text), 0o644))
}

func page(title string, paragraphs []string) string {
	return fmt.Sprintf("<html><head><title>%s</title></head><body><main><h1>%s</h1><p>%s</p></main></body></html>",
		title, title, strings.Join(paragraphs, "</p><p>"))
}

// words are a paragraph that begins with a word of its own, and is the same whenever it is asked for.
func words(own string, n int) string {
	seed := [32]byte{}
	copy(seed[:], own)
	rng := rand.New(rand.NewChaCha8(seed))
	const syllables = "ba be bi bo bu da de di do du ka ke ki ko ku la le li lo lu ma me mi mo mu na ne ni no nu"
	all := strings.Fields(syllables)
	text := []string{own}
	for range n {
		word := ""
		for range 2 + rng.IntN(3) {
			word += all[rng.IntN(len(all))]
		}
		text = append(text, word)
	}
	return strings.Join(text, " ") + "."
}

// live changes a document of one connector after the other, where it is at rest, and asks for its sync, until ctx ends.
func (l *lab) live(ctx context.Context) error {
	next := 0
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for range crowd {
			o := l.others[next%crowd]
			next++
			asked, err := l.ask(ctx, o, 1+rand.IntN(documentsOf-1))
			if err != nil && ctx.Err() == nil {
				return err
			}
			if asked {
				break
			}
		}
	}
}

// ask changes a document and asks for the sync, unless one is under way or waits.
func (l *lab) ask(ctx context.Context, o *ordinary, document int) (asked bool, err error) {
	err = l.Pool.QueryRow(ctx, `SELECT status = 'ACTIVE' AND (next_sync_at IS NULL OR next_sync_at > clock_timestamp() + interval '1 minute')
		FROM connectors WHERE id = $1`, o.id).Scan(&asked)
	if err != nil || !asked {
		return false, wrap("look at an ordinary connector", err)
	}
	if err := l.edit(o, document); err != nil {
		return false, err
	}
	_, err = l.Pool.Exec(ctx, `UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1`, o.id)
	return true, wrap("trigger an ordinary connector", err)
}

func (l *lab) ids() (all []int32) {
	for _, o := range l.others {
		all = append(all, o.id)
	}
	return all
}

// restOfOthers waits until none of the ordinary connectors is in flight or due.
func (l *lab) restOfOthers(ctx context.Context) error {
	return l.until(ctx, "the ordinary connectors", `SELECT NOT EXISTS (SELECT FROM connectors WHERE id = ANY ($1)
		AND (run_id IS NOT NULL OR next_sync_at <= clock_timestamp() OR last_sync_at IS NULL))`, l.ids())
}
