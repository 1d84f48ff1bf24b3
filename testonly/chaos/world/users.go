package world

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// harness is the user that the harness itself has where there are users: it may do anything.
const harness = "harness"

// Users are those of a nats-server. Each may do what its configuration lists and nothing else.
type Users struct {
	// file is the configuration that the servers read, and env what it names of their environment.
	file      string
	env       []string
	passwords map[string]string
}

// userLine is how a configuration names a user, and the variable of the password.
var userLine = regexp.MustCompile(`user: ([a-z]+), password: \$([A-Z_]+)`)

// newUsers takes the users of a configuration, and adds the harness. No password means that there are no users: nil.
func newUsers(configuration, dir string) (*Users, error) {
	if configuration == "" {
		return nil, nil
	}
	text, err := os.ReadFile(configuration)
	if err != nil {
		return nil, fmt.Errorf("read the users of NATS: %w", err)
	}
	u := &Users{file: filepath.Join(dir, "nats.conf"), passwords: map[string]string{}}
	const variable = "NATS_HARNESS_PASSWORD"
	changed := string(text)
	for before, after := range map[string]string{
		"http_port: 8222\n":        "\n", // several harnesses may run at once
		"  store_dir: \"/data\"\n": "",   // each server is told its own
		"    users: [\n":           "    users: [\n      { user: " + harness + ", password: $" + variable + " }\n",
	} {
		if strings.Count(changed, before) != 1 {
			return nil, fmt.Errorf("%s does not have %q once: tell the harness what stands there now", configuration, strings.TrimSpace(before))
		}
		changed = strings.Replace(changed, before, after, 1)
	}
	for _, found := range userLine.FindAllStringSubmatch(changed, -1) {
		password := "p" + rand.Text() // one that begins with a digit would be read as a number
		u.passwords[found[1]] = password
		u.env = append(u.env, found[2]+"="+password)
	}
	if err := os.WriteFile(u.file, []byte(changed), 0o600); err != nil {
		return nil, fmt.Errorf("write the users of NATS: %w", err)
	}
	return u, nil
}

// told is what a program is told of its user.
func (u *Users) told(user string) ([]string, error) {
	password, known := u.passwords[user]
	if !known {
		return nil, fmt.Errorf("NATS has no user %q", user)
	}
	return []string{"NATS_USER=" + user, "NATS_PASSWORD=" + password}, nil
}

// as is how a user is named before a server's address.
func (u *Users) as(user string) string {
	if u == nil {
		return ""
	}
	return url.UserPassword(user, u.passwords[user]).String() + "@"
}
