# The formula for Homebrew, of the newest commit while no release is published: brew install --HEAD ./packaging/ridge.rb
class Ridge < Formula
  desc "LLM inference engine and server on CPUs and NVIDIA GPUs"
  homepage "https://github.com/ridge-llm/ridge"
  license "Apache-2.0"
  head "https://github.com/ridge-llm/ridge.git", branch: "main"

  depends_on "go" => :build

  def install
    ENV["CGO_ENABLED"] = "0"
    system "go", "build", *std_go_args(ldflags: "-s -w"), "./cmd/ridge"
    generate_completions_from_executable(bin/"ridge", "completion")
    system bin/"ridge", "man", "man1"
    man1.install Dir["man1/*.1"]
  end

  service do
    run [opt_bin/"ridge", "serve", "--models-hub"]
    keep_alive true
    log_path var/"log/ridge.log"
    error_log_path var/"log/ridge.log"
  end

  test do
    assert_match "ridge", shell_output("#{bin}/ridge version")
    assert_match(/\w/, shell_output("#{bin}/ridge run --greedy --max-tokens 4 'Once upon a time'"))
  end
end
