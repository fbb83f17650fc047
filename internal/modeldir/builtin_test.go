package modeldir

import "testing"

func TestBuiltin(t *testing.T) {
	b, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if c := b.Model.Config; b.Model.Arch.Name != "llama" || c.Vocab != 4096 || c.Layers != 8 {
		t.Errorf("the built-in model is a %s of %d layers with %d tokens", b.Model.Arch.Name, c.Layers, c.Vocab)
	}
}
