// Package jinja runs Jinja templates the way Hugging Face's transformers runs chat templates: the language and the
// built-ins of Jinja2 3.1.6 in an ImmutableSandboxedEnvironment with trim_blocks and lstrip_blocks on, autoescape off,
// the loopcontrols extension and the generation tag, plus raise_exception, strftime_now and a tojson that is
// json.dumps. Whatever a template prints is, byte for byte, what upstream prints; where upstream raises, Render fails.
//
// The journey of a template:
//
//	source ─ lexer ─► tokens ─ parser ─► nodes ─ analysis ─► nodes with variables resolved to slots ─ Render ─► text
//
// Values are plain Go values (see value.go). Rendering is bounded (see Limits) and can be cancelled. Parts of Jinja2 that
// chat templates on the Hugging Face hub do not use are refused by name (Unsupported): blocks and other files, formatting
// with % and format, and filters for HTML and for print (filter.go, str_method.go, parse_stmt.go list them).
//
// Sources: the Jinja 3.1 template designer documentation, and the Python 3.11 library reference for the methods of str,
// list and dict, json and strftime.
package jinja
