package format

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// strftimeLayouts are the fields that Go's layouts can write.
var strftimeLayouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'h': "Jan", 'd': "02", 'e': "_2", 'm': "01",
	'y': "06", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'j': "002", 'f': "000000",
	'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05", 'D': "01/02/06", 'T': "15:04:05",
	'F': "2006-01-02", 'R': "15:04", 'r': "03:04:05 PM", 'Y': "2006",
}

// strftimeField writes one field of strftime.
func strftimeField(t time.Time, c byte) (string, bool) {
	switch c {
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 'k':
		return fmt.Sprintf("%2d", t.Hour()), true
	case 'l':
		return fmt.Sprintf("%2d", (t.Hour()+11)%12+1), true
	case 'w':
		return strconv.Itoa(int(t.Weekday())), true
	case 'u':
		return strconv.Itoa((int(t.Weekday())+6)%7 + 1), true
	case 'U':
		return fmt.Sprintf("%02d", (t.YearDay()+6-int(t.Weekday()))/7), true
	case 'W':
		return fmt.Sprintf("%02d", (t.YearDay()+6-(int(t.Weekday())+6)%7)/7), true
	case 'V':
		_, w := t.ISOWeek()
		return fmt.Sprintf("%02d", w), true
	case 'G':
		y, _ := t.ISOWeek()
		return strconv.Itoa(y), true
	case 'g':
		y, _ := t.ISOWeek()
		return fmt.Sprintf("%02d", y%100), true
	case 'C':
		return fmt.Sprintf("%02d", t.Year()/100), true
	case 's':
		return strconv.FormatInt(t.Unix(), 10), true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case '%':
		return "%", true
	case 'z', 'Z': // datetime.now() has no zone
		return "", true
	}
	layout, ok := strftimeLayouts[c]
	if !ok {
		return "", false
	}
	return t.Format(layout), true
}

// Strftime is C's, in the C locale.
func Strftime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 >= len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		noPad := false
		if format[i] == '-' && i+1 < len(format) {
			noPad = true
			i++
		}
		s, ok := strftimeField(t, format[i])
		switch {
		case !ok && noPad:
			s = "%-" + format[i:i+1]
		case !ok:
			s = "%" + format[i:i+1]
		case noPad:
			if s = strings.TrimLeft(s, "0 "); s == "" {
				s = "0"
			}
		}
		b.WriteString(s)
	}
	return b.String()
}
