package s3test

import (
	"net/http"
	"testing"
)

// TestCheck: the fake takes the request that S3's documents sign, and no other.
func TestCheck(t *testing.T) {
	request := func(what string) *http.Request {
		r, err := http.NewRequest(http.MethodGet, "https://examplebucket.s3.amazonaws.com/test.txt", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Range", what)
		r.Header.Set("X-Amz-Content-Sha256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
		r.Header.Set("X-Amz-Date", "20130524T000000Z")
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")
		return r
	}
	if err := Check(request("bytes=0-9"), nil, Secret); err != nil {
		t.Error(err)
	}
	if Check(request("bytes=0-8"), nil, Secret) == nil || Check(request("bytes=0-9"), []byte("x"), Secret) == nil || Check(request("bytes=0-9"), nil, Secret+"x") == nil {
		t.Error("another request has the same signature")
	}
}
