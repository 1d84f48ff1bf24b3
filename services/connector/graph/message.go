package graph

import (
	"context"
	"encoding/base64"
	"time"
)

// Message is a chatMessage of a channel ("chatMessage resource type"), with its replies where they were expanded.
type Message struct {
	ID          string     `json:"id"`
	MessageType string     `json:"messageType"`
	Created     time.Time  `json:"createdDateTime"`
	Edited      *time.Time `json:"lastEditedDateTime"`
	Deleted     *time.Time `json:"deletedDateTime"`
	Subject     string     `json:"subject"`
	WebURL      string     `json:"webUrl"`
	From        *Identity  `json:"from"`
	Body        struct {
		ContentType string `json:"contentType"`
		Content     string `json:"content"`
	} `json:"body"`
	Attachments []Attachment `json:"attachments"`
	Mentions    []struct {
		ID        int       `json:"id"`
		Text      string    `json:"mentionText"`
		Mentioned *Identity `json:"mentioned"`
	} `json:"mentions"`
	Policy *struct {
		Action string `json:"dlpAction"`
	} `json:"policyViolation"`
	Removed     *struct{} `json:"@removed"`
	Replies     []Message `json:"replies"`
	NextReplies string    `json:"replies@odata.nextLink"`
	// CutReplies says that there are replies that did not fit, so that none of them is here.
	CutReplies bool `json:"-"`
}

// Identity is the author of a message, or a mentioned person or application.
type Identity struct {
	User         *named `json:"user"`
	Application  *named `json:"application"`
	Device       *named `json:"device"`
	Conversation *named `json:"conversation"`
}

type named struct {
	ID          string `json:"id"`
	DisplayName string `json:"displayName"`
}

// Name is the display name, or empty.
func (i *Identity) Name() string {
	if i == nil {
		return ""
	}
	for _, n := range []*named{i.User, i.Application, i.Device, i.Conversation} {
		if n != nil && n.DisplayName != "" {
			return n.DisplayName
		}
	}
	return ""
}

// Attachment is a chatMessageAttachment. An attachment of content type "reference" is a file in a drive.
type Attachment struct {
	ID          string `json:"id"`
	ContentType string `json:"contentType"`
	ContentURL  string `json:"contentUrl"`
	Name        string `json:"name"`
}

// Messages asks for a page of messages, of a delta, a listing or a thread's replies. at is the service's time then.
func (c *Client) Messages(ctx context.Context, link string) (page Page[Message], at time.Time, err error) {
	at, err = c.get(ctx, link, nil, &page)
	return page, at, err
}

// Shared asks for the drive item behind a URL that people see ("Access shared items": the URL in base64url after "u!"). The URL
// itself is never requested by us.
func (c *Client) Shared(ctx context.Context, contentURL string) (Item, error) {
	id := "u!" + base64.RawURLEncoding.EncodeToString([]byte(contentURL))
	var item Item
	err := c.Get(ctx, c.URL("/shares/"+id+"/driveItem", nil), nil, &item)
	return item, err
}
