package s3

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestSign holds signatures to those that Amazon publishes: of its test suite for Signature Version 4 (get-vanilla), and of the examples of S3's documents (GET and PUT of an object).
func TestSign(t *testing.T) {
	doc := keys{id: "AKIAIOSFODNN7EXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", region: "us-east-1"}
	suite := keys{id: "AKIDEXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", region: "us-east-1"}
	for _, c := range []struct {
		name          string
		keys          keys
		service, when string
		method, url   string
		path, body    string
		header        []string
		hashed        bool
		want          string
	}{
		{"get-vanilla", suite, "service", "20150830T123600Z", "GET", "https://example.amazonaws.com/", "/", "", nil, false, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		{"GET Object", doc, "s3", "20130524T000000Z", "GET", "https://examplebucket.s3.amazonaws.com/test.txt", "/test.txt", "", []string{"Range", "bytes=0-9"}, true,
			"f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
		{"PUT Object", doc, "s3", "20130524T000000Z", "PUT", "https://examplebucket.s3.amazonaws.com/test$file.text", "/test$file.text", "Welcome to Amazon S3.",
			[]string{"Date", "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class", "REDUCED_REDUNDANCY"}, true, "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
	} {
		now, err := time.Parse(stamp, c.when)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequest(c.method, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		hash := hexHash([]byte(c.body))
		if c.hashed {
			r.Header.Set("X-Amz-Content-Sha256", hash)
		}
		for i := 0; i < len(c.header); i += 2 {
			r.Header.Set(c.header[i], c.header[i+1])
		}
		c.keys.sign(r, c.service, escape(c.path), hash, now)
		if got := r.Header.Get("Authorization"); !strings.HasSuffix(got, "Signature="+c.want) {
			t.Errorf("%s: %s\nand should end with %s", c.name, got, c.want)
		}
	}
}

// TestOpen: what is missing is named.
func TestOpen(t *testing.T) {
	t.Setenv("AWS_ENDPOINT_URL_S3", "")
	for _, c := range []struct{ place, id, region, endpoint, says string }{
		{"s3://", "a", "r", "", "no place"}, {"/folder", "a", "r", "", "no place"}, {"s3://b@d/x", "a", "r", "", "no place"}, {"s3://b/x", "", "r", "", "AWS_ACCESS_KEY_ID"},
		{"s3://b/x", "a", "", "", "AWS_REGION"}, {"s3://b/x", "a", "r", "ftp://x", "AWS_ENDPOINT_URL"}, {"s3://b/x", "a", "r", "http://x/path", "AWS_ENDPOINT_URL"},
		{"s3://b/x", "a", "", "http://127.0.0.1:9000", ""}, {"s3://b", "a", "eu-west-1", "", ""},
	} {
		t.Setenv("AWS_ACCESS_KEY_ID", c.id)
		t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
		t.Setenv("AWS_REGION", c.region)
		t.Setenv("AWS_DEFAULT_REGION", "")
		t.Setenv("AWS_ENDPOINT_URL", c.endpoint)
		b, err := Open(c.place)
		switch {
		case c.says == "" && err != nil, c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%+v: %v", c, err)
		case err == nil:
			b.Close()
		}
	}
}
