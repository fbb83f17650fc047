package size

import "testing"

func TestText(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", -2048: "-2.0 KiB", 1536 << 10: "1.5 MiB", 3 << 29: "1.50 GiB", 2 << 40: "2.00 TiB", 1 << 62: "4194304.00 TiB",
	} {
		if got := Text(n); got != want {
			t.Errorf("%d bytes are %q; they should be %q", n, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "512MiB": 512 << 20, "1.5GB": 1.5e9, "4GiB": 4 << 30, "0.001KiB": 1, "2TB": 2e12} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%s is %d, %v; it should be %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "GiB", "0", "-1", "4 GiB", "4gib", "0.0001KiB", "9999999999TiB", "1.2.3", "NaN", "1e3"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}
