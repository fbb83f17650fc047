package mpi

// oneShot is the most bytes of an all-reduce that every rank adds all of, instead of a part each: one message is waited for instead of two.
const oneShot = 32 << 10

// begin begins a call of a kind, unless the group was aborted.
func (r *Rank) begin(kind uint32) (*transfers, error) {
	return &transfers{Rank: r, kind: kind}, r.failure()
}

// others calls do for every other rank, the next one first, until it fails.
func (r *Rank) others(do func(rank int) error) error {
	for i := 1; i < len(r.names); i++ {
		if err := do((r.number + i) % len(r.names)); err != nil {
			return err
		}
	}
	return nil
}

// AllReduce implements comm.Communicator.
func (r *Rank) AllReduce(x []float32) error {
	t, err := r.begin(allReduce)
	if err != nil || len(r.names) == 1 {
		return err
	}
	if 4*len(x) <= oneShot {
		return t.reduce(x, func(int) (int, int) { return 0, len(x) })
	}
	part := func(rank int) (from, to int) { return rank * len(x) / len(r.names), (rank + 1) * len(x) / len(r.names) }
	if err := t.reduce(x, part); err != nil {
		return err
	}
	from, to := part(r.number)
	return t.wait(t.others(func(rank int) error {
		a, b := part(rank)
		if err := t.receive(rank, x[a:b]); err != nil {
			return err
		}
		return t.send(rank, x[from:to])
	}))
}

// reduce sends every rank the part of x that it adds, and adds this one's, in the order of ranks.
func (r *transfers) reduce(x []float32, part func(rank int) (from, to int)) error {
	from, to := part(r.number)
	sum := x[from:to]
	err := r.wait(r.others(func(rank int) error {
		if cap(r.got[rank]) < len(sum) {
			r.got[rank] = make([]float32, len(sum))
		}
		r.got[rank] = r.got[rank][:len(sum)]
		if err := r.receive(rank, r.got[rank]); err != nil {
			return err
		}
		a, b := part(rank)
		return r.send(rank, x[a:b])
	}))
	if err != nil {
		return err
	}
	if r.number > 0 {
		r.got[r.number] = append(r.got[r.number][:0], sum...)
		copy(sum, r.got[0])
	}
	for rank := 1; rank < len(r.names); rank++ {
		for i, v := range r.got[rank][:len(sum)] {
			sum[i] += v
		}
	}
	return nil
}

// AllGather implements comm.Communicator.
func (r *Rank) AllGather(dst, src []float32) error {
	t, err := r.begin(allGather)
	if err != nil {
		return err
	}
	copy(dst[r.number*len(src):], src)
	return t.wait(t.others(func(rank int) error {
		if err := t.receive(rank, dst[rank*len(src):][:len(src)]); err != nil {
			return err
		}
		return t.send(rank, src)
	}))
}

// Send implements comm.Communicator.
func (r *Rank) Send(to int, x []float32) error {
	t, err := r.begin(message)
	if err != nil {
		return err
	}
	return t.wait(t.send(to, x))
}

// Recv implements comm.Communicator.
func (r *Rank) Recv(from int, x []float32) error {
	t, err := r.begin(message)
	if err != nil {
		return err
	}
	return t.wait(t.receive(from, x))
}
