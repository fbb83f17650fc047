package kv

// recency is a list of ids by the time they were put in, linked through arrays. An id is in it once at most.
type recency struct {
	newer, older []int32 // by id, and at the last place the list's ends; itself if the id is not in the list
}

func newRecency(ids int) recency {
	r := recency{newer: make([]int32, ids+1), older: make([]int32, ids+1)}
	for i := range r.newer {
		r.newer[i], r.older[i] = int32(i), int32(i)
	}
	return r
}

// end is the id that stands for the ring's two ends.
func (r *recency) end() int32 { return int32(len(r.newer) - 1) }

// oldest is the id put in first, or none.
func (r *recency) oldest() int32 {
	if id := r.newer[r.end()]; id != r.end() {
		return id
	}
	return none
}

func (r *recency) has(id int32) bool { return r.newer[id] != id }

// put makes id the newest, wherever it was.
func (r *recency) put(id int32) {
	r.remove(id)
	r.link(id, r.older[r.end()])
}

// link puts id, which is not in the list, next to one that is, on its newer side.
func (r *recency) link(id, older int32) {
	newer := r.newer[older]
	r.older[id], r.newer[id] = older, newer
	r.newer[older], r.older[newer] = id, id
}

// remove takes id out, if it is in.
func (r *recency) remove(id int32) {
	older, newer := r.older[id], r.newer[id]
	r.newer[older], r.older[newer] = newer, older
	r.newer[id], r.older[id] = id, id
}

// replace puts id, which is not in the list, in the place of one that is.
func (r *recency) replace(old, id int32) {
	r.link(id, old)
	r.remove(old)
}
