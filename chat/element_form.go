package chat

// ElementForm is how a style writes calls as elements, one for each parameter, as the text around names and values. "\n?" in it is
// a line break that may be missing, since the templates of a style differ in that:
//
//	Open name Named  Key parameter Value value End  …  Close
//
// and calls in a row are parted by Between. Values that are texts do not contain ValueEnd, with which End begins but for a line break.
type ElementForm struct {
	Open, Named            string
	Key, Value, End, Close string
	Between, ValueEnd      string
}

// Elements is how models of this style write calls; ok is false for styles with JSON, see Form.
func (t ToolStyle) Elements() (f ElementForm, ok bool) {
	switch t {
	case Coder:
		return ElementForm{
			Open: hermesBegin + "\n<function=", Named: ">\n", Key: "<parameter=", Value: ">\n", End: "\n</parameter>\n", Close: "</function>\n" + hermesEnd,
			Between: "\n", ValueEnd: "</parameter>"}, true
	case Seed:
		return ElementForm{
			Open: seedBegin + "\n<function=", Named: ">\n", Key: "<parameter=", Value: ">", End: "</parameter>\n", Close: "</function>\n" + seedEnd,
			Between: "\n", ValueEnd: "</parameter>"}, true
	case GLM:
		return ElementForm{
			Open: hermesBegin, Named: "\n?", Key: "<arg_key>", Value: "</arg_key>\n?<arg_value>", End: "</arg_value>\n?", Close: hermesEnd,
			Between: "\n?", ValueEnd: "</arg_value>"}, true
	}
	return ElementForm{}, false
}
