package profiles

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// distributed reads what a trace says of its rank.
func (r *reader) distributed(key string) error {
	n := int64(-1)
	switch key {
	case "rank":
		err := r.whole(&n)
		if err == nil && n < 0 {
			return said("is of rank %d, and ranks begin at 0", n)
		}
		r.made.Rank = int(n)
		return err
	case "world_size":
		err := r.whole(&n)
		r.made.World = int(max(n, 0))
		return err
	}
	return r.json.SkipValue()
}

// properties reads what a trace says of its devices, which are of one kind.
func (r *reader) properties(key string) error {
	if key != "name" || r.made.Device != "" {
		return r.json.SkipValue()
	}
	var name []byte
	err := r.text(&name)
	r.made.Device = string(name)
	return err
}

// event reads an event and keeps what psim uses of it.
func (r *reader) event() error {
	if r.events++; r.events%4096 == 0 && r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	e := &r.now
	*e = event{name: e.name[:0], pid: e.pid[:0], tid: e.tid[:0], cat: e.cat[:0], device: -1, correlation: -1}
	if err := r.object(r.field); err != nil || e.phase != 'X' || e.category == noCategory {
		return err
	}
	switch {
	case !e.started && e.category == unknownCategory:
		return nil
	case !e.started:
		return said("event %d%s: ts is missing, its start in microseconds", r.events, e.called())
	case e.length < 0:
		return said("event %d%s: dur is %s µs; it must be 0 or more", r.events, e.called(), microseconds(e.length))
	case e.start+e.length < e.start:
		return said("event %d%s: ts and dur are too large", r.events, e.called())
	}
	return r.keep()
}

// microseconds prints a time as a trace has it.
func microseconds(n int64) string { return strconv.FormatFloat(float64(n)/1000, 'f', -1, 64) }

// field reads a field of an event.
func (r *reader) field(key string) error {
	e := &r.now
	switch key {
	case "ph":
		v, err := r.json.ReadValue()
		if len(v) == 3 {
			e.phase = v[1]
		}
		return err
	case "cat":
		v, err := r.json.ReadValue()
		e.category = categories[string(unquoted(v))]
		if e.category == unknownCategory {
			e.cat = append(e.cat, unquoted(v)...)
		}
		return err
	case "name":
		return r.text(&e.name)
	case "pid":
		return r.text(&e.pid)
	case "tid":
		return r.text(&e.tid)
	case "ts":
		return r.time(&e.start, &e.started)
	case "dur":
		return r.time(&e.length, &e.lasts)
	case "args":
		if e.category == hostOperations || e.category == hostRanges || e.category == noCategory {
			return r.json.SkipValue()
		}
		return r.object(r.argument)
	}
	return r.json.SkipValue()
}

// argument reads a field of an event's arguments.
func (r *reader) argument(key string) error {
	e := &r.now
	var text []byte
	switch key {
	case "stream":
		e.stream = true
	case "device":
		return r.whole(&e.device)
	case "correlation":
		return r.whole(&e.correlation)
	case "Collective name":
		err := r.text(&text)
		e.call.name = r.own(text)
		return err
	case "Process Group Name", "Process Group Ranks":
		err := r.text(&text)
		e.call.group += r.own(text) + " "
		return err
	case "Group size":
		var n int64
		err := r.whole(&n)
		e.call.members = int(n)
		return err
	case "In msg nelems":
		return r.whole(&e.call.elements)
	}
	return r.json.SkipValue()
}

// own returns a text that stays; equal texts are held once.
func (r *reader) own(text []byte) string { return r.made.names[r.id(text)] }

// id returns the number of a name.
func (r *reader) id(name []byte) int32 {
	id, ok := r.ids[string(name)]
	if !ok {
		id = int32(len(r.made.names))
		text := string(name)
		r.ids[text], r.made.names = id, append(r.made.names, text)
		for i := range r.classOf {
			r.classOf[i] = append(r.classOf[i], classes) // not known yet
		}
	}
	return id
}

// keep keeps an event.
func (r *reader) keep() error {
	e := &r.now
	switch e.category {
	case deviceCategory:
		return r.kernel()
	case hostLaunches:
		r.runtime = true
		if e.correlation >= 0 {
			r.launches = append(r.launches, launched{e.correlation, e.start})
		}
	case deviceRanges, hostRanges:
		r.annotation()
	case hostOperations:
		if class := r.class(0); class != ignored {
			return r.operation(class)
		}
	default:
		if e.stream && e.lasts {
			r.others[string(e.cat)]++
		}
	}
	return nil
}

// class returns the class of the event's name, as an operation's (0) or a kernel's (1).
func (r *reader) class(kind int) Class {
	id := r.id(r.now.name)
	known := &r.classOf[kind][id]
	if *known == classes {
		*known = [...]func(string) Class{operationClass, kernelClass}[kind](r.made.names[id])
	}
	return *known
}

// thread returns the number of the event's thread or stream.
func (r *reader) thread() int32 {
	id, ok := r.threads[[2]string{string(r.now.pid), string(r.now.tid)}]
	if !ok {
		id = int32(len(r.threads))
		r.threads[[2]string{string(r.now.pid), string(r.now.tid)}] = id
	}
	return id
}

// taken makes a kernel of the event.
func (r *reader) taken(class Class) kernel {
	e := &r.now
	return kernel{
		start: e.start, end: e.start + e.length, launch: e.correlation, name: r.id(e.name), call: -1,
		thread: r.thread(), class: class,
	}
}

// kernel keeps a kernel or a copy of a device.
func (r *reader) kernel() error {
	e := &r.now
	if len(r.made.kernels) == mostKernels {
		return said("has more than %d kernels; profile fewer steps", mostKernels)
	}
	r.operations = nil
	k := r.taken(r.class(1))
	if k.class == Transfer && e.call.message(r.made.names[k.name]) {
		k.class = Messages
	}
	if k.class == Transfer {
		k.call = int32(len(r.made.calls))
		r.made.calls = append(r.made.calls, e.call)
	}
	device := e.device
	if n, err := strconv.ParseInt(string(e.pid), 10, 64); err == nil {
		device = n
	}
	r.device[device]++
	r.made.kernels, r.devices = append(r.made.kernels, k), append(r.devices, device)
	return nil
}

// operation keeps an operation of the CPU, as long as there is no kernel of a device.
func (r *reader) operation(class Class) error {
	switch {
	case len(r.made.kernels) > 0:
		return nil
	case len(r.operations) == mostKernels:
		return said("has more than %d operations and no kernel; profile fewer steps", mostKernels)
	}
	r.operations = append(r.operations, r.taken(class))
	return nil
}

// annotation keeps a range with a meaning: of a step, of an optimizer, of gloo.
func (r *reader) annotation() {
	e := &r.now
	onDevice := e.category == deviceRanges
	if number, ok := strings.CutPrefix(string(e.name), "ProfilerStep#"); ok {
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil || n < 0 {
			return
		}
		steps := r.steps[0]
		if onDevice {
			steps = r.steps[1]
		}
		s := span{start: e.start, end: e.start + e.length, number: n}
		if known, ok := steps[n]; ok { // a stream each
			s.start, s.end = min(s.start, known.start), max(s.end, known.end)
		}
		steps[n] = s
		return
	}
	switch class := annotationClass(string(e.name)); {
	case class == ignored:
	case onDevice && class == Optimizer:
		r.working = append(r.working, span{start: e.start, end: e.start + e.length, thread: r.thread()})
	case !onDevice && len(r.made.kernels) == 0 && len(r.operations) < mostKernels:
		k := r.taken(class)
		if class == Transfer {
			k.call = int32(len(r.made.calls))
			r.made.calls = append(r.made.calls, call{name: string(e.name)})
		}
		r.operations = append(r.operations, k)
	}
}

// finish makes a profile of what was read.
func (r *reader) finish() (*RankProfile, error) {
	p := r.made
	if err := r.settle(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(p.kernels, func(a, b kernel) int { return cmp.Compare(a.start, b.start) })
	slices.SortFunc(r.launches, func(a, b launched) int { // calls lie in calls of one number
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.at, b.at))
	})
	for i := range p.kernels {
		k := &p.kernels[i]
		at, ok := slices.BinarySearchFunc(r.launches, k.launch, func(l launched, n int64) int {
			return cmp.Compare(l.number, n)
		})
		if k.launch = 0; ok && !p.Host {
			k.launch = r.launches[at].at
		}
	}
	r.optimizers()
	p.findSteps(r.steps[0], r.steps[1])
	return p, nil
}

// settle decides whose kernels count: those of the device that has the most, or the operations of the CPU.
func (r *reader) settle() error {
	p := r.made
	switch {
	case len(p.kernels) == 0 && len(r.others) > 0:
		names := slices.Sorted(maps.Keys(r.others))
		return said("has events of a device in the category %s, which psim does not know; it reads kernels of "+
			"GPUs (kernel, gpu_memcpy, gpu_memset)", names[0])
	case len(p.kernels) == 0 && (r.runtime || p.Device != ""):
		return said("has no kernels, and there is a GPU: profile with ProfilerActivity.CUDA among activities")
	case len(p.kernels) == 0 && len(r.operations) == 0:
		return said("has no kernels and no operations: was the profiler on during a step?")
	case len(p.kernels) == 0:
		p.kernels, p.Host = r.operations, true
		return nil
	}
	most := slices.MaxFunc(slices.Sorted(maps.Keys(r.device)), func(a, b int64) int {
		return cmp.Compare(r.device[a], r.device[b])
	})
	if len(r.device) > 1 {
		kept := p.kernels[:0]
		for i, k := range p.kernels {
			if r.devices[i] == most {
				kept = append(kept, k)
			}
		}
		p.kernels = kept
	}
	return nil
}

// optimizers puts computing kernels that lie in an optimizer's range on their stream into its class.
func (r *reader) optimizers() {
	for _, s := range r.working {
		from, _ := slices.BinarySearchFunc(r.made.kernels, s.start, func(k kernel, at int64) int {
			return cmp.Compare(k.start, at)
		})
		for i := from; i < len(r.made.kernels) && r.made.kernels[i].start < s.end; i++ {
			if k := &r.made.kernels[i]; k.thread == s.thread && k.class < Transfer {
				k.class = Optimizer
			}
		}
	}
}
