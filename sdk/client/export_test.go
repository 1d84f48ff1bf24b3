package client

import "time"

// WithPatience gives requests another time than they have.
func WithPatience(c *ClientWithResponses, patience time.Duration) {
	one := c.ClientInterface.(*Client)
	d := one.Client.(doer)
	d.patience = patience
	one.Client = d
}
