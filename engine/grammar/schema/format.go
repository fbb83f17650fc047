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
)

// formats are the texts of the formats, as patterns of the whole text. Dates exist, leap years included. The patterns
// of email, hostname, ipv6 and uri leave out rare forms: what they allow is valid, but not all that is valid.
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
	"uri": `[a-z][a-z0-9+.-]{0,30}://` + hostFormat + `(?::[1-9][0-9]{0,3})?(?:/` + uriChar + `*)*(?:\?(?:` + uriChar +
		`|[/?])*)?(?:#(?:` + uriChar + `|[/?])*)?`,
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
