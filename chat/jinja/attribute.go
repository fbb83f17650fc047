package jinja

import "strings"

// attr is object.name in the sandbox: the object's attribute, or else its item under that name, or else undefined.
func (r *render) attr(object any, name string) (any, error) {
	v, found, err := r.attribute(object, name)
	if err != nil {
		return nil, err
	}
	if !found {
		v, found, err = r.subscript(object, name)
		if err != nil || found {
			return v, err
		}
		return notThere(object, name), nil
	}
	return guard(object, name, v), nil
}

// item is object[key] in the sandbox: the item, or else the attribute of that name, or else undefined.
func (r *render) item(object, key any) (any, error) {
	v, found, err := r.subscript(object, key)
	if err != nil || found {
		return v, err
	}
	if name, ok := text(key); ok {
		v, found, err := r.attribute(object, name)
		if err != nil {
			return nil, err
		}
		if found {
			return guard(object, name, v), nil
		}
	}
	return notThere(object, key), nil
}

func notThere(object, key any) *undefined {
	what := typeName(object) + " object"
	if object == nil {
		what = "None"
	}
	if name, ok := text(key); ok {
		return &undefined{reason: "'" + what + "' has no attribute '" + name + "'"}
	}
	return &undefined{reason: what + " has no element " + simpleRepr(key)}
}

// guard gives the value of an attribute, or what stands for one that the sandbox forbids: names that start with an
// underscore, and the methods that would change a list or a dict.
func guard(object any, name string, v any) any {
	forbidden := strings.HasPrefix(name, "_")
	switch object.(type) {
	case *Map:
		switch name {
		case "clear", "pop", "popitem", "setdefault", "update":
			forbidden = true
		}
	case *List:
		switch name {
		case "append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove":
			forbidden = true
		}
	}
	if forbidden {
		return &undefined{
			reason: "access to attribute '" + name + "' of '" + typeName(object) + "' object is unsafe.",
			kind:   Security,
		}
	}
	return v
}

// attribute is getattr(object, name) outside the sandbox; found is false for what has no such attribute.
func (r *render) attribute(object any, name string) (v any, found bool, err error) {
	if u, ok := object.(*undefined); ok && !isObjectAttribute(name) {
		return nil, false, u.fail()
	}
	if ns, ok := object.(*namespace); ok {
		v, found := ns.attrs.Get(name)
		return v, found || name == "__class__", nil
	}
	if isObjectAttribute(name) {
		return nil, true, nil // only guard looks at it
	}
	var m method
	switch o := object.(type) {
	case string, Markup:
		m = strMethod(name)
	case *Map:
		m = dictMethod(name)
	case *List:
		m = listMethod(name)
	case *Tuple:
		m = sequenceMethod("tuple", name)
	case *loopState:
		return o.attribute(r, name)
	case *macro:
		v, found := o.attribute(name)
		return v, found, nil
	case *rangeValue:
		switch name {
		case "start", "stop", "step":
			return nil, false, failKind(Unsupported, "Ridge's Jinja does not have range.%s", name)
		}
		m = sequenceMethod("range", name)
	case *builtin:
		if o.name == "dict" && name == "fromkeys" {
			m = refusedMethod("dict", name)
		}
	}
	if m == nil {
		return nil, false, nil
	}
	return &boundMethod{object, name, m}, true, nil
}

// isObjectAttribute reports the attributes that every Python object has.
func isObjectAttribute(name string) bool {
	switch name {
	case "__class__", "__delattr__", "__dir__", "__doc__", "__eq__", "__format__", "__ge__", "__getattribute__",
		"__getstate__", "__gt__", "__hash__", "__init__", "__init_subclass__", "__le__", "__lt__", "__ne__", "__new__",
		"__reduce__", "__reduce_ex__", "__repr__", "__setattr__", "__sizeof__", "__str__", "__subclasshook__":
		return true
	}
	return false
}
