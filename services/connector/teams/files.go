package teams

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/services/connector/graph"
)

const (
	// maxLink bounds the link of an attachment, as JSON. A path in a library has at most 400 characters ("Restrictions and limitations
	// in OneDrive and SharePoint"); a longer link leads to none.
	maxLink = 4 << 10
	// maxItem bounds the id of a drive item in a memo; real ones have some 30 bytes. A longer id is left out: the link leads to the
	// item.
	maxItem = 1 << 10
	// maxDepth bounds how far up the folders of a file are followed.
	maxDepth = 400
)

// attached is the memo of an attached file. With maxLink and maxItem it is below worker.MaxMemoBytes.
type attached struct {
	// Link is the address in the message.
	Link string `json:"l"`
	// Item is the drive item that the link led to last.
	Item string `json:"i,omitempty"`
	// Gone says that there is no such file in the channel's folder. The document has no text then, and only keeps this memo.
	Gone bool `json:"g,omitempty"`
	// Look says that the next sync looks for the file again though nothing has changed in the library.
	Look bool `json:"n,omitempty"`
}

// name is the end of a link, spelled as the library spells names.
func (a attached) name() string {
	if u, err := url.Parse(a.Link); err == nil && u.Path != "" {
		return path.Base(u.Path)
	}
	return "attachment"
}

func isLink(link string) bool {
	data, err := json.Marshal(link)
	return err == nil && link != "" && len(data) <= maxLink
}

// updateAttachments removes the attachments that a thread no longer has, and looks for new ones. Stored attachments are left to the
// changes of the library, and failed ones to Look.
func (c *channel) updateAttachments(ctx context.Context, thread string, messages []graph.Message) error {
	links := map[string]string{}
	for _, m := range messages {
		for _, a := range m.Attachments {
			if !c.cfg.NoAttachments && a.ContentType == "reference" && a.ID != "" && isLink(a.ContentURL) {
				links[thread+"/"+clipID(a.ID)] = a.ContentURL // of a file that is attached twice the newest is right
			}
		}
	}
	for id := range c.files[thread] {
		if links[id] == "" {
			delete(c.files[thread], id)
			if err := c.sync.Remove(ctx, id); err != nil {
				return err
			}
		}
	}
	for id, link := range links {
		if of, _ := c.sync.Stored(id); c.state.Drive == "" || source.MemoOf[attached](of).Link == link {
			continue
		}
		c.attach(thread, id)
		if err := c.updateFile(ctx, id, attached{Link: link}, false, true); err != nil {
			return err
		}
	}
	return nil
}

func (c *channel) attach(thread, id string) {
	if c.files[thread] == nil {
		c.files[thread] = map[string]struct{}{}
	}
	c.files[thread][id] = struct{}{}
}

func clipID(id string) string {
	if len(id) > 500 {
		return source.Short(id)
	}
	return url.PathEscape(id)
}

// location says where an attached file was found.
type location int

const (
	inFolder location = iota
	elsewhere
	nowhere
)

// updateFile looks for an attached file, and gives it to the engine. told says that the library has reported its item as gone.
// retry reads it again also where it has failed before.
func (c *channel) updateFile(ctx context.Context, id string, a attached, told, retry bool) error {
	item, at, err := c.find(ctx, a, told)
	of, known := c.sync.Stored(id)
	if of.Failed == source.NotStored && (retry || err != nil || at != inFolder) {
		if still, bad := c.stillAttached(ctx, id); bad != nil || !still {
			return bad
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case graph.EndsSync(err):
		return fmt.Errorf("find an attachment: %w", err)
	case err != nil:
		a.Look = false
		why := source.Unreadable{Reason: graph.Reason(err), Trouble: !graph.IsRefused(err)}
		return c.sync.Fail(ctx, source.Item{ID: id, Title: a.name(), URL: a.Link, Memo: a}, why)
	case item.ID != "" && item.Parent.DriveID != c.state.Drive:
		return c.sync.Remove(ctx, id) // it is in another library: its link never leads here
	case at != inFolder:
		if len(item.ID) <= maxItem {
			a.Item = cmp.Or(item.ID, a.Item) // it may come into the folder
		}
		return c.missing(ctx, id, a, told || at == elsewhere, known)
	case !retry && of.Failed != source.None && of.Failed != source.InContent && of.Failed != source.IsAway:
		return nil // Look tries it again in its turn
	}
	mayHaveText := known && !a.Gone && (of.Found || of.Failed == source.Unknown)
	given := c.newItem(id, a, item)
	given.Read = func(ctx context.Context) (source.Content, error) {
		content, fresh, err := c.reader.Content(ctx, c.state.Drive, item)
		now := c.newItem(id, a, fresh)
		if errors.Is(err, source.ErrAway) && !mayHaveText {
			now, err = withoutText(id, given.Memo.(attached), true), source.ErrNoText
		}
		content.Now = &now
		return content, err
	}
	return c.sync.Item(ctx, given)
}

// stillAttached reads the thread of a file that could not be stored: the failure may be that of its deletion.
func (c *channel) stillAttached(ctx context.Context, id string) (bool, error) {
	thread, _ := split(id)
	if _, shown := c.shown[thread]; !shown {
		if err := c.recheckThread(ctx, thread, true); err != nil {
			return false, err
		}
	}
	of, known := c.sync.Stored(id)
	_, shown := c.shown[thread]
	return known && shown && !of.Fresh, nil
}

// newItem describes an attached file to the engine.
func (c *channel) newItem(id string, a attached, item graph.Item) source.Item {
	now := attached{Link: a.Link}
	if len(item.ID) <= maxItem {
		now.Item = item.ID
	}
	version := graph.VersionOf(item)
	return source.Item{
		ID: id, Title: cmp.Or(item.Name, a.name()), URL: item.WebURL, MediaType: item.MediaType(), Version: cmp.Or(version.CTag, version.Hash),
		Memo: now, Bytes: item.Size, Unread: c.reader.Refusal(item),
	}
}

// withoutText describes an attachment without a file. Title and address are those of the message.
func withoutText(id string, a attached, look bool) source.Item {
	a.Gone, a.Look = true, look
	return source.Item{ID: id, Title: a.name(), URL: a.Link, Memo: a}
}

// missing removes the text of an attachment whose file is not in the channel's folder. Its memo stays, because its thread does not
// change when the file comes back: when a permission is granted again, when the file leaves the recycle bin, or when another file
// is uploaded under its name.
//
// A library may report a file as missing for a moment. Where nothing else says so, the stored text stays until the next sync does
// not find the file either, and a file without a stored text is looked for once more.
func (c *channel) missing(ctx context.Context, id string, a attached, certain, known bool) error {
	if !known || certain || a.Gone {
		return c.sync.Item(ctx, withoutText(id, a, !known && !certain))
	}
	lost, err := c.sync.MarkAway(ctx, source.Item{ID: id, Title: a.name(), URL: a.Link, Memo: a})
	if lost { // what is left of it says that it is looked for once more
		_, err = c.sync.MarkAway(ctx, withoutText(id, a, true))
	}
	return err
}

// find looks for an attached file where its link leads. Where that is not in the channel's folder, it returns the item that the
// link led to last, as long as that is in the channel's folder and not reported as gone: it was renamed.
func (c *channel) find(ctx context.Context, a attached, told bool) (graph.Item, location, error) {
	at, found := nowhere, graph.Item{}
	for n, ask := range []func() (graph.Item, error){
		func() (graph.Item, error) { return c.api.Shared(ctx, a.Link) },
		func() (graph.Item, error) { return c.api.Item(ctx, c.state.Drive, a.Item) },
	} {
		item, err := ask()
		var inside bool
		if err == nil && item.Deleted == nil {
			inside, err = c.inside(ctx, item)
		}
		switch {
		case graph.IsGone(err) || err == nil && item.Deleted != nil:
		case n > 0 && graph.IsRefused(err):
			at = elsewhere // it has moved to a place that the account may not read
		case err != nil:
			return item, at, err
		case inside && !item.IsFolder():
			return item, inFolder, nil
		default:
			at, found = elsewhere, item
		}
		if a.Item == "" || told {
			break
		}
	}
	return found, at, nil
}

// inside tells whether an item lies in the channel's folder. Elsewhere the people in the channel may have no right to read it, and
// no delta reports its changes.
func (c *channel) inside(ctx context.Context, item graph.Item) (in bool, err error) {
	if item.Parent.DriveID != c.state.Drive {
		return false, nil
	}
	var up []string
	for at := cmp.Or(item.Parent.ID, item.ID); at != "" && len(up) < maxDepth; {
		known, is := c.inFolder[at]
		if in = at == c.state.Folder || known; in || is {
			break
		}
		up = append(up, at)
		folder, err := c.api.Item(ctx, c.state.Drive, at)
		if err != nil {
			return false, err
		}
		at = folder.Parent.ID
	}
	for _, folder := range up {
		c.inFolder[folder] = in
	}
	return in, nil
}
