// Package access decides which requests a server answers: API keys with their tenants and limits, and what a
// browser may do on a server without keys.
package access

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Key is an API key. Keys of one name are one tenant: they see the same files, share limits and cached prompts, so a key is
// rotated by adding its successor under the same name and removing it later.
type Key struct {
	Name   string // of the tenant, for logs and as the owner of what is stored; never secret
	Admin  bool   // may read what the server tells of all tenants: /metrics, /stats, /steps
	Limits Limits
	digest [sha256.Size]byte
}

// Limits are what a tenant may use. 0: no limit.
type Limits struct {
	Requests int // POST requests a minute
	Tokens   int // a minute, of prompts and answers
	Parallel int // POST requests under way at once
}

// NewKey makes a key without limits. Its name is made of its digest, from which the secret cannot be found.
func NewKey(secret string) Key {
	digest := sha256.Sum256([]byte(secret))
	return Key{Name: "key-" + hex.EncodeToString(digest[:6]), digest: digest}
}

// ReadKeys reads a file with a key a line:
//
//	SECRET [name=TENANT] [requests=N] [tokens=N] [parallel=N] [admin]
//
// Empty lines and those that begin with # do not count.
func ReadKeys(path string) ([]Key, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []Key
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		k, err := parseKey(text)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, n, err)
		}
		for i := range all {
			if all[i].digest == k.digest {
				return nil, fmt.Errorf("%s, line %d: the key is there twice; remove one of the lines", path, n)
			}
			if all[i].Name == k.Name && all[i].Limits != k.Limits {
				return nil, fmt.Errorf("%s, line %d: the keys named %s have different limits; give all of them the same", path, n, k.Name)
			}
		}
		all = append(all, k)
	}
	switch err := lines.Err(); {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case len(all) == 0:
		return nil, fmt.Errorf("%s has no key", path)
	}
	return all, nil
}

// parseKey reads a line of a file of keys. No error repeats the secret.
func parseKey(line string) (Key, error) {
	words := strings.Fields(line)
	k := NewKey(words[0])
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "admin":
			k.Admin = true
		case "name":
			if value == "" || len(value) > 64 || strings.ContainsFunc(value, func(r rune) bool { return !nameRune(r) }) {
				return k, fmt.Errorf("the name %q should have 1 to 64 letters, digits, dots, dashes and underscores", value)
			}
			k.Name = value
		case "requests", "tokens", "parallel":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 {
				return k, fmt.Errorf("%s is %q; a whole number from 1 is possible", name, value)
			}
			*map[string]*int{"requests": &k.Limits.Requests, "tokens": &k.Limits.Tokens, "parallel": &k.Limits.Parallel}[name] = n
		default:
			return k, fmt.Errorf("what follows the key should be name=, requests=, tokens=, parallel= or admin, separated by spaces")
		}
	}
	return k, nil
}

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
}

// tenants are the names of keys, each once.
func tenants(all []Key) (names []string) {
	for _, k := range all {
		if !slices.Contains(names, k.Name) {
			names = append(names, k.Name)
		}
	}
	return names
}
