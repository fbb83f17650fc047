package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// descriptor says which blob something is (OCI Image Format Specification 1.1, descriptor.md).
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// layout is the files of an image layout (image-layout.md), by name.
type layout struct{ files map[string][]byte }

// put adds a blob.
func (l *layout) put(mediaType string, data []byte) descriptor {
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	l.files["blobs/sha256/"+sum] = data
	return descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(data)}
}

func (l *layout) putJSON(mediaType string, v any) (descriptor, error) {
	data, err := json.Marshal(v)
	return l.put(mediaType, data), err
}

const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// image writes a tar of an image with nothing but the program, as packaging/Containerfile makes it, for each architecture that there is a static program of: podman load and skopeo copy oci-archive: take it.
func image(path, version string, programs map[string]string, when time.Time) error {
	l := &layout{files: map[string][]byte{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`)}}
	var manifests []descriptor
	for _, arch := range slices.Sorted(maps.Keys(programs)) {
		d, err := l.manifest(arch, version, programs[arch], when)
		if err != nil {
			return err
		}
		manifests = append(manifests, d)
	}
	all, err := l.putJSON(indexType, map[string]any{"schemaVersion": 2, "mediaType": indexType, "manifests": manifests})
	if err != nil {
		return err
	}
	all.Annotations = map[string]string{"org.opencontainers.image.ref.name": "ridge:" + version}
	if l.files["index.json"], err = json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": indexType, "manifests": []descriptor{all}}); err != nil {
		return err
	}
	return l.write(path, when)
}

// manifest adds the image of one architecture.
func (l *layout) manifest(arch, version, program string, when time.Time) (d descriptor, err error) {
	var plain, packed bytes.Buffer
	if err := tarred(&plain, "", []file{{"ridge", program, 0o755}}, when); err != nil {
		return d, err
	}
	z := gzip.NewWriter(&packed)
	_, err = z.Write(plain.Bytes())
	if err := errors.Join(err, z.Close()); err != nil {
		return d, err
	}
	config, err := l.putJSON(configType, map[string]any{
		"created": when.Format(time.RFC3339), "architecture": arch, "os": "linux",
		"config": map[string]any{
			"Env": []string{"HOME=/data", "HF_HOME=/data/huggingface"}, "Entrypoint": []string{"/ridge"}, "ExposedPorts": map[string]any{"8000/tcp": struct{}{}}, "Volumes": map[string]any{"/data": struct{}{}},
			"Labels": map[string]string{"org.opencontainers.image.title": "ridge", "org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0"},
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(plain.Bytes()))}},
		"history": []map[string]any{{"created": when.Format(time.RFC3339), "created_by": "packaging/release"}},
	})
	if err != nil {
		return d, err
	}
	layer := l.put(layerType, packed.Bytes())
	d, err = l.putJSON(manifestType, map[string]any{"schemaVersion": 2, "mediaType": manifestType, "config": config, "layers": []descriptor{layer}})
	d.Platform = &platform{arch, "linux"}
	return d, err
}

// write makes a tar of the layout.
func (l *layout) write(path string, when time.Time) error {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(l.files)) {
		data := l.files[name]
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(data)), ModTime: when, Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		if _, err := t.Write(data); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
