package jinja

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
)

// hostile templates would run for ever or eat memory without limits; each must fail, soon and with a Limit.
var hostile = []string{
	`{{ 'a' * 10**9 }}`,
	`{{ [1] * 10**12 }}`,
	`{{ range(10**12) }}`,
	`{{ 'a'|indent(10**12) }}`,
	`{{ 10 ** (10 ** 8) }}`,
	`{% set ns = namespace(x=3) %}{% for i in range(99) %}{% set ns.x = ns.x * ns.x %}{% endfor %}`,
	`{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}`,
	`{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}`,
	`{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}`,
	`{% set ns = namespace(x='aa') %}{% for i in range(99) %}{% set ns.x = ns.x.replace('a', ns.x) %}{% endfor %}`,
	`{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}`,
	`{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}`,
	`{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|tojson }}`,
	`{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}`,
	`{% set ns = namespace(x=[1]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}`,
	`{% set ns = namespace(x=(1,)) %}{% for i in range(9999) %}{% set ns.x = (ns.x,) %}{% endfor %}{{ ns.x|tojson }}`,
	`{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}`,
	`{% set ns = namespace(g=[1]) %}{% for i in range(9999) %}{% set ns.g = ns.g|map('string') %}{% endfor %}{{ ns.g|list }}`,
	`{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}`,
	`{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}`,
	`{% macro m(x) %}{% call m(x) %}{{ caller() }}{% endcall %}{% endmacro %}{{ m(1) }}`,
	`{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}`,
	`{% for i in range(99999) %}{% for j in range(99999) %}{{ 'x' }}{% endfor %}{% endfor %}`,
	`{% set ns = namespace(x='(') %}{% for i in range(80) %}{% set ns.x = ns.x|tojson %}{% endfor %}`,
}

func TestHostileTemplates(t *testing.T) {
	limits := Limits{Steps: 1_000_000, Memory: 64 << 20, Output: 8 << 20}
	for _, source := range hostile {
		tmpl, err := Parse("hostile", source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		_, err = tmpl.Render(context.Background(), NewMap(), Options{Limits: limits})
		runtime.ReadMemStats(&after)
		var e *Error
		if !errors.As(err, &e) || e.Kind != Limit || e.Line != 1 {
			t.Errorf("%s: %v, want a Limit error in line 1", source, err)
		}
		// It takes a second at most; the machine may have ten other things to do.
		if d := time.Since(start); d > 30*time.Second {
			t.Errorf("%s: took %s", source, d)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<30 {
			t.Errorf("%s: allocated %d MiB", source, n>>20)
		}
	}
}

func TestDeepSource(t *testing.T) {
	for _, unit := range [][2]string{{"(", ")"}, {"[", "]"}, {"-", ""}, {"not ", ""}, {"{'a':", "}"}, {"x[", "]"}, {"f(", ")"}, {"1 + ", ""}, {"1|abs|", ""}, {"x.", ""}, {"1 if 1 else ", ""}} {
		deep := strings.Repeat(unit[0], 20_000) + "x" + strings.Repeat(unit[1], 20_000)
		if _, err := Parse("deep", "{{ "+deep+" }}"); err == nil || err.(*Error).Kind != Syntax {
			t.Errorf("20,000 × %q: %v, want a syntax error", unit[0], err)
		}
	}
	tags := strings.Repeat("{% if x %}", 20_000)
	if _, err := Parse("deep", tags); err == nil || err.(*Error).Kind != Syntax {
		t.Errorf("20,000 ifs: %v, want a syntax error", err)
	}
	if _, err := Parse("wide", strings.Repeat("{% if x %}{{ y }}{% set z = 1 %}{% endif %}", 10_000)); err != nil {
		t.Errorf("10,000 ifs one after another: %v", err)
	}
}

func TestCancel(t *testing.T) {
	tmpl, err := Parse("slow", `{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}`)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err = tmpl.Render(ctx, NewMap(), Options{Limits: Limits{Steps: 1 << 60}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline's error", err)
	}
}

func TestErrorNamesTheLine(t *testing.T) {
	for source, want := range map[string]string{
		"a\nb {{ x.y.z }}": "chat: t.jinja:2: 'x' is undefined",
		"{% if true %}\n\n{{ raise_exception('no') }}{% endif %}": "chat: t.jinja:3: no",
		"\n{% set a = 1 / 0 %}":                                   "chat: t.jinja:2: division by zero",
		"{% macro m() %}\n{{ 1|nope }}{% endmacro %}":             "chat: t.jinja:2: no filter named 'nope'",
		"\n\n{{ 'abc }}":                                          "chat: t.jinja:3: a string is not closed by '",
		"{% for x in y %}\n{% endif %}":                           "chat: t.jinja:2: unknown tag 'endif' where 'endfor' or 'else' was expected",
		"{{ [].append(1) }}":                                      "chat: t.jinja:1: access to attribute 'append' of 'list' object is unsafe.",
		"\xff":                                                    "chat: t.jinja:1: the template is not valid UTF-8",
	} {
		_, err := renderJSON("t.jinja", source, []byte("{}"))
		if err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", source, err, want)
		}
	}
}
