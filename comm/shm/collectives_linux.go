package shm

// oneShot is the most bytes of an all-reduce that every rank adds all of, instead of a part each: twice as much is read, and one wait is saved.
const oneShot = 32 << 10

// post makes sure that this rank's next block is free, and gives its number and its memory.
func (r *Rank) post(kind, n int) (number uint32, at int, err error) {
	for _, w := range r.taken {
		if err := r.await(w, r.at-blocks+1); err != nil {
			return 0, 0, err
		}
	}
	at = r.block(r.number, int(r.at%blocks))
	head(r.mem[at:], kind, n)
	r.at++
	return r.at, at + blockHead, nil
}

// arrived waits for block number of another rank and checks what it is of. It gives the place of its numbers.
func (r *Rank) arrived(rank int, number uint32, kind, n int) (at int, err error) {
	if err := r.await(r.posted[rank], number); err != nil {
		return 0, err
	}
	at = r.block(rank, int((number-1)%blocks))
	if err := same(r.mem[at:], rank, kind, n); err != nil {
		r.Abort(err)
		return 0, err
	}
	return at + blockHead, nil
}

// AllReduce implements comm.Communicator.
func (r *Rank) AllReduce(x []float32) error {
	if err := r.call(); err != nil || r.ranks == 1 {
		return err
	}
	if 4*len(x) <= oneShot {
		return r.reduceOnce(x)
	}
	// Three blocks are under way: while a rank waits for the parts of one it has written the next. What it waits for has mostly come then.
	const each = block / 4
	pieces := (len(x) + each - 1) / each
	first := r.at + 1
	piece := func(i int) []float32 { return x[i*each : min((i+1)*each, len(x))] }
	for i := range pieces + 2 {
		if i < pieces {
			if err := r.give(piece(i), len(x)); err != nil {
				return err
			}
		}
		if k := i - 1; k >= 0 && k < pieces {
			if err := r.sum(piece(k), first+uint32(k), len(x)); err != nil {
				return err
			}
		}
		if k := i - 2; k >= 0 {
			if err := r.take(piece(k), first+uint32(k)); err != nil {
				return err
			}
		}
	}
	return nil
}

// reduceOnce has every rank add all numbers of all.
func (r *Rank) reduceOnce(x []float32) error {
	number, at, err := r.post(allReduce, len(x))
	if err != nil {
		return err
	}
	copy(numbers(r.mem, at, len(x)), x)
	r.posted[r.number].set(number)
	r.summed[r.number].set(number)
	var before []float32
	for rank := range r.ranks {
		at, err := r.arrived(rank, number, allReduce, len(x))
		if err != nil {
			return err
		}
		switch y := numbers(r.mem, at, len(x)); rank {
		case 0:
			before = y
		default:
			r.ops.Add(x, before, y)
			before = x
		}
	}
	r.taken[r.number].set(number)
	return nil
}

// part is the numbers of a piece that a rank adds: whole cache lines.
func (r *Rank) part(rank, n int) (from, to int) {
	const line = 16 // numbers
	all := (n + line - 1) / line
	return min(rank*all/r.ranks*line, n), min((rank+1)*all/r.ranks*line, n)
}

// give writes the parts of a piece that other ranks add.
func (r *Rank) give(x []float32, n int) error {
	number, at, err := r.post(allReduce, n)
	if err != nil {
		return err
	}
	from, to := r.part(r.number, len(x))
	own := numbers(r.mem, at, len(x))
	copy(own[:from], x[:from])
	copy(own[to:], x[to:])
	r.posted[r.number].set(number)
	return nil
}

// sum adds this rank's part of a piece, in the order of ranks, where the others read it.
func (r *Rank) sum(x []float32, number uint32, n int) error {
	from, to := r.part(r.number, len(x))
	sums := numbers(r.mem, r.block(r.number, int((number-1)%blocks))+blockHead, len(x))[from:to]
	var before []float32
	for rank := range r.ranks {
		y := x
		if rank != r.number {
			at, err := r.arrived(rank, number, allReduce, n)
			if err != nil {
				return err
			}
			y = numbers(r.mem, at, len(x))
		}
		if y = y[from:to]; rank > 0 {
			r.ops.Add(sums, before, y)
			y = sums
		}
		before = y
	}
	r.summed[r.number].set(number)
	copy(x[from:to], sums)
	return nil
}

// take copies the parts of a piece that the others have added.
func (r *Rank) take(x []float32, number uint32) error {
	for i := 1; i < r.ranks; i++ {
		rank := (r.number + i) % r.ranks
		if err := r.await(r.summed[rank], number); err != nil {
			return err
		}
		from, to := r.part(rank, len(x))
		copy(x[from:to], numbers(r.mem, r.block(rank, int((number-1)%blocks))+blockHead, len(x))[from:to])
	}
	r.taken[r.number].set(number)
	return nil
}

// AllGather implements comm.Communicator.
func (r *Rank) AllGather(dst, src []float32) error {
	if err := r.call(); err != nil {
		return err
	}
	const each = block / 4
	for from := 0; from == 0 || from < len(src); from += each {
		piece := src[from:min(from+each, len(src))]
		number, at, err := r.post(allGather, len(src))
		if err != nil {
			return err
		}
		copy(numbers(r.mem, at, len(piece)), piece)
		r.posted[r.number].set(number)
		r.summed[r.number].set(number)
		for i := range r.ranks {
			rank := (r.number + i) % r.ranks
			at, err := r.arrived(rank, number, allGather, len(src))
			if err != nil {
				return err
			}
			copy(dst[rank*len(src)+from:][:len(piece)], numbers(r.mem, at, len(piece)))
		}
		r.taken[r.number].set(number)
	}
	return nil
}

// Send implements comm.Communicator.
func (r *Rank) Send(to int, x []float32) error {
	if err := r.call(); err != nil {
		return err
	}
	l := r.links[r.number][to]
	const each = block / 4
	for from := 0; from == 0 || from < len(x); from += each {
		piece := x[from:min(from+each, len(x))]
		if err := r.await(l.taken, l.at-sent+1); err != nil {
			return err
		}
		at := r.sent(r.number, to, int(l.at%sent))
		head(r.mem[at:], message, len(x))
		copy(numbers(r.mem, at+blockHead, len(piece)), piece)
		l.at++
		l.posted.set(l.at)
	}
	return nil
}

// Recv implements comm.Communicator.
func (r *Rank) Recv(from int, x []float32) error {
	if err := r.call(); err != nil {
		return err
	}
	l := r.links[from][r.number]
	const each = block / 4
	for first := 0; first == 0 || first < len(x); first += each {
		piece := x[first:min(first+each, len(x))]
		if err := r.await(l.posted, l.at+1); err != nil {
			return err
		}
		at := r.sent(from, r.number, int(l.at%sent))
		if err := same(r.mem[at:], from, message, len(x)); err != nil {
			r.Abort(err)
			return err
		}
		copy(piece, numbers(r.mem, at+blockHead, len(piece)))
		l.at++
		l.taken.set(l.at)
	}
	return nil
}
