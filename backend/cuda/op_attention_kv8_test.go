package cuda

import (
	"reflect"
	"testing"
)

func TestTogether(t *testing.T) {
	prompts := []prompt{{0, 1, 100}, {2, 2, 200}, {3, 1, 5}, {4, 8, 1024}, {6, 1, 129}}
	want := []group{{0, 3, 4, 4, 2}, {4, 4, 8, 8, 8}, {6, 6, 1, 2, 2}}
	if got := together(prompts, 8); !reflect.DeepEqual(got, want) {
		t.Errorf("prompts go together as %+v, want %+v", got, want)
	}
	if got := together(nil, 8); got != nil {
		t.Errorf("no prompts go together as %+v", got)
	}
}
