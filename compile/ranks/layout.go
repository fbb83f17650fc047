package ranks

import "github.com/ridge-llm/ridge/pass"

// Place is the device of a layout that a rank has: the last stage's first, so that results are where the engine is.
func Place(l pass.Layout, rank int) pass.Rank { return l.Rank(number(l, rank)) }

// number is the rank that has a device, or the device that a rank has, by its number in the layout: the last stage is the first.
func number(l pass.Layout, i int) int {
	each := l.Devices() / l.Pipeline
	return (l.Pipeline-1-i/each)*each + i%each
}

// Groups are the ranks that exchange numbers: those of pass.Layout.Groups.
func Groups(l pass.Layout) (all [][]int) {
	for _, g := range l.Groups() {
		var ranks []int
		for _, device := range g.Devices {
			ranks = append(ranks, number(l, device))
		}
		all = append(all, ranks)
	}
	return all
}
