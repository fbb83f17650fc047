package schema

import (
	"maps"
	"slices"
	"strings"
)

const (
	dateFormat = `(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|` +
		`02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)`
	timeFormat = `(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])`
	hostFormat = hostLabel + `(?:\.` + hostLabel + `){0,3}`
	hostLabel  = `[A-Za-z0-9](?:-?[A-Za-z0-9]){0,28}`
	mailAtom   = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,31}"
	ipv4Octet  = `(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])`
	ipv6Group  = `[0-9A-Fa-f]{1,4}`
	timeSpan   = `T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)`
	uriChar    = `(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})`
	uriSegment = `(?:[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})+`
	uriEnd     = `(?:\?(?:` + uriChar + `|[/?])*)?(?:#(?:` + uriChar + `|[/?])*)?`
	uriFormat  = `[a-z][a-z0-9+.-]{0,30}://` + hostFormat + `(?::[1-9][0-9]{0,3})?(?:/` + uriChar + `*)*` + uriEnd
	iriChar    = `(?:[A-Za-z0-9._~!$&'()*+,;=:@\u00A0-\uD7FF-]|%[0-9A-Fa-f]{2})`
	iriEnd     = `(?:\?(?:` + iriChar + `|[/?])*)?(?:#(?:` + iriChar + `|[/?])*)?`
	iriFormat  = `[a-z][a-z0-9+.-]{0,30}://` + idnHost + `(?::[1-9][0-9]{0,3})?(?:/` + iriChar + `*)*` + iriEnd
	idnLetter  = `[A-Za-z0-9\u00DF-\u00F6\u00F8-\u00FF\u03B1-\u03C9\u0430-\u044F\u3041-\u3096\u4E00-\u9FA5]`
	idnHost    = `(?:` + hostFormat + `|` + idnLetter + `{1,12}(?:\.` + idnLetter + `{1,12}){0,3})`
	pointer    = `(?:/(?:[^/~]|~[01])*)*`
	templated  = `(?:` + uriSegment + `|\{[A-Za-z0-9_]{1,40}(?:,[A-Za-z0-9_]{1,40}){0,8}\})+`
	reAtom     = `(?:[A-Za-z0-9 _@#%&=:;,'"<>/~!-]|\\[dDwWsStnrf.^$*+?()\[\]{}|\\/]|\[\^?(?:[A-Za-z0-9_ ]|a-z|A-Z|0-9)+\])`
)

// formats are the texts of the formats, as patterns of the whole text. Dates exist, leap years included. The patterns
// of hosts, addresses, URIs and regular expressions leave out rare forms: what they allow is valid, but not all that is valid.
var formats = map[string]string{
	"date":      dateFormat,
	"time":      timeFormat,
	"date-time": dateFormat + "T" + timeFormat,
	"duration": `P(?:(?:[0-9]+D|[0-9]+M(?:[0-9]+D)?|[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?)(?:` + timeSpan + `)?|` + timeSpan +
		`|[0-9]+W)`,
	"email":    mailAtom + `(?:\.` + mailAtom + `)?@` + hostFormat,
	"hostname": hostFormat,
	"ipv4":     ipv4Octet + `(?:\.` + ipv4Octet + `){3}`,
	"ipv6":     ipv6Format(),
	"uuid":     `[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}`,
	"uri":      uriFormat,
	// A relative reference begins with a segment that has no colon, with a slash, or with its query or fragment.
	"uri-reference": uriFormat + `|(?:` + uriSegment + `)?(?:/` + uriSegment + `)*/?` + uriEnd,
	"iri":           iriFormat,
	"iri-reference": iriFormat + `|(?:` + uriSegment + `)?(?:/` + uriSegment + `)*/?` + iriEnd,
	"uri-template":  `(?:[a-z]{2,10}://` + hostFormat + `|` + templated + `)?(?:/` + templated + `)*/?`,
	"idn-email":     mailAtom + `(?:\.` + mailAtom + `)?@` + idnHost,
	"idn-hostname":  idnHost,
	"cidrv4":        ipv4Octet + `(?:\.` + ipv4Octet + `){3}/(?:[12]?[0-9]|3[0-2])`,
	"cidrv6":        `(?:` + ipv6Format() + `)/(?:[1-9]?[0-9]|1[01][0-9]|12[0-8])`,

	"json-pointer":          pointer,
	"relative-json-pointer": `(?:0|[1-9][0-9]{0,8})(?:#|` + pointer + `)`,
	"regex":                 `\^?(?:` + reAtom + `[*+?]?)*\$?`,

	// Of the libraries that make schemas of types.
	"base64":    `(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?`,
	"base64url": `[A-Za-z0-9_-]*`,
	"cuid":      `[cC][a-z0-9]{8,31}`,
	"cuid2":     `[a-z][0-9a-z]{1,31}`,
	"ulid":      `[0-7][0-9A-HJKMNP-TV-Z]{25}`,
	"nanoid":    `[A-Za-z0-9_-]{21}`,
	"e164":      `\+[1-9][0-9]{6,14}`,
}

// ipv6Format is eight groups, or fewer with :: for the others.
func ipv6Format() string {
	before := func(n string) string { return `(?:` + ipv6Group + `:){` + n + `}` }
	after := func(n string) string { return `(?::` + ipv6Group + `){` + n + `}` }
	return strings.Join([]string{
		before("7") + ipv6Group, before("1,7") + ":", before("1,6") + ":" + ipv6Group, before("1,5") + after("1,2"),
		before("1,4") + after("1,3"), before("1,3") + after("1,4"), before("1,2") + after("1,5"),
		before("1") + after("1,6"), ":" + after("1,7"), "::",
	}, "|")
}

func formatNames() string { return strings.Join(slices.Sorted(maps.Keys(formats)), ", ") }
