package jinja

import (
	"fmt"
	"strings"
	"time"
)

const maxDateWidth = 1024 // characters of one field of a date

// strftime formats t as Python's datetime.strftime does with the C library of Linux and the C locale. The time has no
// zone, as datetime.now() has none: %z and %Z are empty.
func strftime(format string, t time.Time) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		start := i
		i++
		var flag byte
		for i < len(format) && strings.IndexByte("-_0^#", format[i]) >= 0 {
			flag = format[i]
			i++
		}
		width := -1
		for i < len(format) && isDecimal(format[i]) {
			width = min(10*max(width, 0)+int(format[i]-'0'), maxDateWidth)
			i++
		}
		if i < len(format) && (format[i] == 'E' || format[i] == 'O') {
			i++
		}
		if i == len(format) {
			b.WriteString(format[start:])
			break
		}
		s, ok := directive(format[i], flag, width, t)
		if !ok {
			s = format[start : i+1]
		}
		if flag == '^' || flag == '#' && format[i] != 'p' {
			s = strings.ToUpper(s)
		}
		b.WriteString(s)
	}
	return b.String()
}

// directive formats one conversion.
func directive(c, flag byte, wanted int, t time.Time) (string, bool) {
	if s, ok := textDirective(c, flag, t); ok {
		return strings.Repeat(" ", max(0, wanted-len(s))) + s, true
	}
	number := func(n, width int, pad byte) (string, bool) {
		width = max(width, wanted)
		switch flag {
		case '-':
			width = wanted
		case '_':
			pad = ' '
		case '0':
			pad = '0'
		}
		s := fmt.Sprint(n)
		return strings.Repeat(string(pad), max(0, width-len(s))) + s, true
	}
	isoYear, isoWeek := t.ISOWeek()
	hour12 := (t.Hour()+11)%12 + 1
	switch c {
	case 'd':
		return number(t.Day(), 2, '0')
	case 'e':
		return number(t.Day(), 2, ' ')
	case 'H':
		return number(t.Hour(), 2, '0')
	case 'k':
		return number(t.Hour(), 2, ' ')
	case 'I':
		return number(hour12, 2, '0')
	case 'l':
		return number(hour12, 2, ' ')
	case 'j':
		return number(t.YearDay(), 3, '0')
	case 'm':
		return number(int(t.Month()), 2, '0')
	case 'M':
		return number(t.Minute(), 2, '0')
	case 'S':
		return number(t.Second(), 2, '0')
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 's':
		return number(int(t.Unix()), 0, '0')
	case 'u':
		return number((int(t.Weekday())+6)%7+1, 1, '0')
	case 'w':
		return number(int(t.Weekday()), 1, '0')
	case 'U':
		return number((t.YearDay()+6-int(t.Weekday()))/7, 2, '0')
	case 'W':
		return number((t.YearDay()+6-(int(t.Weekday())+6)%7)/7, 2, '0')
	case 'V':
		return number(isoWeek, 2, '0')
	case 'G':
		return number(isoYear, 4, '0')
	case 'g':
		return number(isoYear%100, 2, '0')
	case 'Y':
		return number(t.Year(), 1, '0')
	case 'y':
		return number(t.Year()%100, 2, '0')
	case 'C':
		return number(t.Year()/100, 2, '0')
	}
	return "", false
}

// textDirective formats the conversions that are names, punctuation, or other formats.
func textDirective(c, flag byte, t time.Time) (string, bool) {
	half := t.Format("PM")
	switch c {
	case 'a':
		return t.Format("Mon"), true
	case 'A':
		return t.Format("Monday"), true
	case 'b', 'h':
		return t.Format("Jan"), true
	case 'B':
		return t.Format("January"), true
	case 'p':
		if flag == '#' {
			half = strings.ToLower(half)
		}
		return half, true
	case 'P':
		return strings.ToLower(half), true
	case 'z', 'Z':
		return "", true
	case '%':
		return "%", true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	}
	whole := map[byte]string{
		'c': "%a %b %e %H:%M:%S %Y", 'D': "%m/%d/%y", 'F': "%Y-%m-%d", 'r': "%I:%M:%S %p", 'R': "%H:%M",
		'T': "%H:%M:%S", 'x': "%m/%d/%y", 'X': "%H:%M:%S",
	}[c]
	return strftime(whole, t), whole != ""
}
