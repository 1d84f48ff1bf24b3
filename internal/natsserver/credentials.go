package natsserver

import (
	"crypto/subtle"

	"github.com/nats-io/nats-server/v2/server"
)

// credentials admit one user. The server's own option would warn at each start that the password is not hashed; ours is random,
// and must lie in a 0600 file for the clients anyway.
type credentials struct{ user, password string }

func (c credentials) Check(client server.ClientAuthentication) bool {
	said := client.GetOpts()
	user := subtle.ConstantTimeCompare([]byte(said.Username), []byte(c.user))
	password := subtle.ConstantTimeCompare([]byte(said.Password), []byte(c.password))
	return user&password == 1
}
