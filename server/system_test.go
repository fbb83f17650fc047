package server_test

import (
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// TestSystemRole: a template without a system role has the system's text in the user's turn, or refuses it where the server is told to.
func TestSystemRole(t *testing.T) {
	const template = `{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}`
	const body = `{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}], "max_tokens": 2}`
	for _, refuse := range []bool{false, true} {
		h, _ := start(t, ridge.Options{Context: 256, Template: template, RefuseSystem: refuse}, server.Options{})
		status, text := post(t, h, "/apply-template", body)
		if want := `user\u003eBe brief.\n\nHi`; !refuse && (status != 200 || !strings.Contains(text, want)) {
			t.Errorf("%d %s, want %s", status, text, want)
		}
		if refuse && (status != 400 || !strings.Contains(text, "no system role")) {
			t.Errorf("%d %s, want it refused", status, text)
		}
	}
}
