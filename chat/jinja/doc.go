// Package jinja runs Jinja templates the way Hugging Face's transformers runs chat templates: the language and the
// built-ins of Jinja2 3.1.6 in an ImmutableSandboxedEnvironment with trim_blocks and lstrip_blocks on, autoescape off,
// the loopcontrols extension and the generation tag, plus raise_exception, strftime_now and a tojson that is
// json.dumps. Whatever a template prints is, byte for byte, what upstream prints; where upstream raises, Render fails.
//
// The journey of a template:
//
//	source ─ lexer ─► tokens ─ parser ─► nodes ─ analysis ─► nodes with variables resolved to slots ─ Render ─► text
//
// Values are plain Go values (see value.go). Rendering is bounded (see Limits) and can be cancelled. What is refused by
// name, because one file of text cannot need it: include, import, extends, the filters random and urlize, and lipsum.
//
// Sources: the Jinja 3.1 template designer documentation, and the Python 3.11 library reference for the methods of str,
// list and dict, the format mini-language, printf-style formatting, json, textwrap and strftime.
package jinja
